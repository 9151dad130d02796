//! Reports in a real browser, used as a person would: click, move in time, search, compare.
//!
//! Without Chromium the tests say that they were skipped; with `ALLOTMENT_REQUIRE=chromium` they fail. With
//! `ALLOTMENT_PICTURES=DIRECTORY` they leave pictures of the views there.

mod chromium;
mod model;
mod recordings;

use std::path::PathBuf;

use allotment_report::write_report;
use allotment_trace::recording::Recording;
use chromium::{Chromium, scratch};
use recordings::HOSTILE;

fn page_of(recording: &Recording, title: &str) -> PathBuf {
    let path = scratch("report").join("report.html");
    let file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    write_report(title, recording, file).unwrap();
    path
}

fn open(recording: &Recording, title: &str) -> Option<Chromium> {
    Chromium::open(&page_of(recording, title), 1400, 900)
}

/// Where a range is on the screen: the middle of what the block map draws of it.
fn middle_of(page: &mut Chromium, range: u32) -> (f64, f64) {
    page.value(&format!(
        "globalThis.found = (r => {{ const box = $('map').getBoundingClientRect(); return [box.left + r.x + r.w / 2, \
         box.top + r.y + r.h / 2]; }})(view.map.rectangle(view.model.blockOf[{range}], view.model.offset[{range}], \
         view.model.offset[{range}] + view.model.occupied({range})))"
    ));
    (page.number("found[0]"), page.number("found[1]"))
}

fn assert_totals(page: &mut Chromium, recording: &Recording, t: usize) {
    let shown: serde_json::Value = serde_json::from_str(&page.text("$('totals').textContent")).unwrap();
    assert_eq!(shown["t"], t);
    for (name, expected) in model::totals(&model::state_at(recording, t)).as_object().unwrap() {
        assert_eq!(shown[name].as_f64(), expected.as_f64(), "{name} at {t}");
    }
}

#[test]
fn totals_at_any_moment_equal_the_models() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "totals") else { return };
    let events = recording.events.len();
    for t in [0, 1, 7, events / 3, events / 2, events - 1, events] {
        page.value(&format!("goTo({t})"));
        page.settle();
        // A reservation is known as one from the event after it on: the page knows it at once.
        assert_totals(&mut page, &recording, t);
        let series = page.value(&format!(
            "[view.series.used[{t}], view.series.overhead[{t}], view.series.pending[{t}], view.series.reserved[{t}]]"
        ));
        let totals = page.value("(n => [n.used, n.overhead, n.pending, n.reserved])(view.moment.totals)");
        assert_eq!(series, totals, "the timeline at {t}");
    }
}

#[test]
fn pictures_of_the_views() {
    let recording = recordings::program(400);
    let Some(mut page) = open(&recording, "harbour_scene") else { return };
    page.settle();
    page.picture("1-open.png");
    let range = page.number("view.moment.live[Math.floor(view.moment.liveCount / 2)]") as u32;
    let at = middle_of(&mut page, range);
    page.click(at);
    page.picture("2-clicked.png");
    for _ in 0..6 {
        page.wheel(at, -200.0);
    }
    page.hover(at);
    page.picture("3-zoomed.png");
    page.value("view.theme = 'dark'; applyColours(); view.map.fit(); setScale(true)");
    page.settle();
    page.picture("4-dark.png");
    page.value("view.palette = 'safe'; applyColours()");
    for (k, tab) in ["table", "leaks", "compare", "free", "descriptors", "queues", "happenings"].iter().enumerate() {
        page.value(&format!("view.theme = 'light'; applyColours(); setMark('b'); view.a = 500; showTab('{tab}'); scrollTo(0, 9999)"));
        page.settle();
        page.picture(&format!("5-{k}-{tab}.png"));
    }
}
