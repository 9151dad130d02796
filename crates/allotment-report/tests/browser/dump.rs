//! A dump of one moment: nothing is shown that it does not say.

use allotment_trace::import;

use crate::chromium::Chromium;
use crate::open;

fn open_dump() -> Option<Chromium> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../allotment-trace/tests/data/vma-3.3.0.json");
    open(&import::open(path).unwrap(), "dump")
}

/// Words that only a history gives a meaning to, of those that are seen.
fn assert_nothing_about_time(page: &mut Chromium, where_it_is: &str) {
    let text = page.text("document.body.innerText").to_lowercase();
    for words in ["event", "frame 0", "lifetime", "history of", "over time", "never", "cursor", "allocated\n"]
    {
        assert!(!text.contains(words), "{words} in {where_it_is}: {text}");
    }
}

#[test]
fn of_a_dump_of_one_moment_nothing_about_time_is_shown() {
    let Some(mut page) = open_dump() else { return };
    let text = page.text("document.body.innerText");
    assert!(text.contains("A dump of one moment"), "{text}");
    let tabs = page.text("[...$('tabs').children].map(tab => tab.dataset.v).join()");
    assert!(["table,calls,free", "table,calls,free,advice"].contains(&&*tabs), "{tabs}");
    assert!(page.number("$('timeline').clientHeight") == 0.0);
    for tab in tabs.split(',') {
        page.value(&format!("showTab('{tab}')"));
        page.settle();
        assert_nothing_about_time(&mut page, tab);
    }
    for selected in ["show(view.moment.all()[0])", "select({ block: 0 })"] {
        page.value(selected);
        page.settle();
        let details = page.text("$('details').innerText");
        assert!(details.contains("Offset") || details.contains("Size"), "{details}");
        assert_nothing_about_time(&mut page, selected);
    }
    page.key("?", false);
    assert_nothing_about_time(&mut page, "the keys");
    page.picture("dump.png");
}

#[test]
fn no_key_leaves_the_moment_of_a_dump() {
    let Some(mut page) = open_dump() else { return };
    let at = page.number("view.t");
    assert!(page.number("view.moment.totals.allocations") > 0.0);
    for key in ["ArrowLeft", "Home", "p", "[", "a", "b", "2", "0"] {
        page.key(key, false);
        page.settle();
        assert_eq!(page.number("view.t"), at, "{key}");
    }
    assert!(page.value("view.comparing || view.set.size > 0") == false);
}
