//! What the validation layer says, and what of it is a failure.

use allotment_headless::Message;

/// What the layer says of things that are as they should be, and why they are.
const ALLOWED: [(&str, &str); 3] = [
    (
        "UNASSIGNED-BestPractices-vkCreateInstance-specialuse-extension-debugging",
        "about the extensions by which the layer itself is heard",
    ),
    (
        "UNASSIGNED-BestPractices-vkBindBufferMemory-requirements-not-retrieved",
        "they were asked of the description (maintenance4), which the layer does not count",
    ),
    ("UNASSIGNED-BestPractices-vkBindImageMemory-requirements-not-retrieved", "as above"),
];

/// Of each rule that was broken the first message, and how many there were.
pub(super) fn told_once(messages: Vec<Message>) -> Vec<String> {
    let mut rules: Vec<(Message, usize)> = Vec::new();
    for message in messages.into_iter().filter(|message| !is_allowed(&message.id)) {
        match rules.iter_mut().find(|(first, _)| first.id == message.id) {
            Some((_, times)) => *times += 1,
            None => rules.push((message, 1)),
        }
    }
    let told = |(message, times): (Message, usize)| match times {
        1 => message.to_string().trim().to_owned(),
        _ => format!("{times} times: {}", message.to_string().trim()),
    };
    rules.into_iter().map(told).collect()
}

fn is_allowed(id: &str) -> bool {
    ALLOWED.iter().any(|(allowed, _)| *allowed == id)
}
