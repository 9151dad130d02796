//! Reports in a real browser, used as a person would: click, move in time, search, compare.
//!
//! Without Chromium the tests say that they were skipped; with `ALLOTMENT_REQUIRE=chromium` they fail. With
//! `ALLOTMENT_PICTURES=DIRECTORY` they leave pictures of the views there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

mod chromium;
mod dump;
mod model;
mod recordings;

use std::collections::BTreeMap;
use std::path::PathBuf;

use allotment::device::BufferDesc;
use allotment::device::simulated::{Profile, SimulatedGpu};
use allotment::{Gpu, GpuDesc, MemoryUsage};
use allotment_analyze::tables::{Cell, DescriptorHeapRow, Row, Table, allocation_cell, allocation_columns};
use allotment_analyze::{
    AdviceThresholds, AllocationIndex, CallNode, CallQuestion, CallTree, CallTreeDesc, Cursor, Difference,
    Grouping, Holes, Lanes, Leaks, LifetimeEnd, LifetimeRule, OfflineMemory, ReleaseLatency, Scope,
    SharedHistory, SharedMemory, Status, Timeline, advice, proved,
};
use allotment_report::write_report;
use allotment_trace::Collector;
use allotment_trace::recording::{Event, Recording, StackFrame, StackId, TextId};
use chromium::{Chromium, scratch};
use recordings::{HOSTILE, MIB};

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
        "globalThis.found = (r => {{ const box = $('map').getBoundingClientRect(); return [Math.round(box.left + r.x + r.w / 2), \
         box.top + r.y + r.h / 2]; }})(view.map.rectangle(view.model.blockOf[{range}], view.model.offset[{range}], \
         view.model.offset[{range}] + view.model.occupied({range})))"
    ));
    (page.number("found[0]"), page.number("found[1]"))
}

fn assert_totals(page: &mut Chromium, recording: &Recording, t: usize) {
    // With many allocations the totals follow the cursor when it rests.
    page.wait_for(&format!("$('totals').textContent.includes('\"t\":{t},')"));
    let shown: serde_json::Value = serde_json::from_str(&page.text("$('totals').textContent")).unwrap();
    assert_eq!(shown["t"], t);
    for (name, expected) in model::totals(&Timeline::new(recording), t as u64).as_object().unwrap() {
        assert_eq!(shown[name].as_f64(), expected.as_f64(), "{name} at {t}");
    }
}

/// The lists below the block map, but for the advice, which not every recording has.
const LISTS: [&str; 12] = [
    "table",
    "leaks",
    "calls",
    "compare",
    "lifetimes",
    "free",
    "latency",
    "aliasing",
    "descriptors",
    "queues",
    "happenings",
    "planned",
];

#[test]
fn what_is_found_in_slices_is_what_a_plain_search_finds() {
    let Some(mut page) = open(&recordings::program(300), "slices") else { return };
    let equal = |page: &mut Chromium, found: &str, plain: &str| {
        let found = page.value(found);
        assert!(found.as_array().is_some_and(|found| !found.is_empty()));
        assert_eq!(found, page.value(plain));
    };
    page.value("globalThis.items = Array.from({ length: 20000 }, (_, i) => i); globalThis.key = i => i * 7919 % 1009; 0");
    let plain = "items.toSorted((a, b) => key(b) - key(a) || a - b).slice(0, 50)";
    equal(&mut page, "whole(firstBy(items, key, true, 50))", plain);
    let pauses = page.number("[...firstBy(items, key, true, 50)].length");
    assert!(pauses >= 20_000.0 / page.number("PAUSE"), "it pauses: {pauses}");
    page.value("globalThis.words = items.slice(0, 3000).map(i => `name ${i * 37 % 1500}`); 0");
    let plain = "(sorted => words.map(word => sorted.indexOf(word)))\
                 ([...new Set(words)].sort(new Intl.Collator('en', { numeric: true }).compare))";
    equal(&mut page, "[...whole(alphabet(words))]", plain);
    // Also where one text ends and the next one begins.
    for part in ["e", "tex", "t m", "mesh 1"] {
        let plain = format!(
            "[0, ...view.model.columns.list('texts').map(text => +text.toLowerCase().includes('{part}'))]"
        );
        equal(&mut page, &format!("[...textsWith('{part}', view.model)]"), &plain);
    }
}

#[test]
fn totals_at_any_moment_equal_the_models() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "totals") else { return };
    let events = recording.events.len();
    // Also between the allocation of a move's destination and the event that says what it is.
    let reserved = recording.events.iter().position(|event| matches!(event, Event::Reserved { .. })).unwrap();
    let resized =
        recording.events.iter().rposition(|event| matches!(event, Event::BlockResized { .. })).unwrap();
    for t in [
        0,
        1,
        7,
        resized,
        resized + 1,
        events / 3,
        reserved,
        reserved + 1,
        reserved + 2,
        events / 2,
        events - 1,
        events,
    ] {
        page.value(&format!("goTo({t})"));
        page.settle();
        assert_totals(&mut page, &recording, t);
        let series = page.value(&format!(
            "[view.series.used({t}), view.series.overhead({t}), view.series.pending({t}), view.series.reserved({t})]"
        ));
        let totals = page.value("(n => [n.used, n.overhead, n.pending, n.reserved])(view.moment.totals)");
        assert_eq!(series, totals, "the timeline at {t}");
    }
}

/// The largest live allocation with a part of a name.
fn live_named(page: &mut Chromium, name: &str) -> u32 {
    page.number(&format!(
        "view.moment.all().filter(i => view.model.name(i).includes(`{name}`)) \
         .reduce((a, b) => view.model.requested[b] > view.model.requested[a] ? b : a)"
    )) as u32
}

#[test]
fn a_click_on_a_block_shows_the_allocation_and_the_history_of_its_bytes() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "clicks") else { return };
    let range = live_named(&mut page, "texture");
    let at = middle_of(&mut page, range);
    page.hover(at);
    let name = page.text(&format!("view.model.name({range})"));
    assert!(page.text("$('tip').textContent").starts_with(&name));
    page.click(at);
    assert_eq!(page.text("$('details').querySelector('h2').textContent"), name);
    let details = page.text("$('details').textContent");
    let size = page.text(&format!("exact(view.model.requested[{range}])"));
    assert!(details.contains(&size) && details.contains("src/texture.rs:"), "{details}");
    // A row of the history selects another allocation, and moves to a moment at which it exists.
    let rows = page.number("$('details').querySelectorAll('.history li').length");
    assert!(rows >= 1.0);
    page.click_on("#details .history li:first-child button");
    assert!(page.value("view.moment.has(view.selected.range)") == true);
    page.key("Escape", false);
    assert!(page.value("view.selected === null") == true);
    // A free range and a whole block.
    let free = page.number(
        "view.map.rows.find(row => row.b != null).y + $('map').getBoundingClientRect().top + MAP_TOP + 8",
    );
    let right = page.number("$('map').getBoundingClientRect().left + MAP_LEFT + view.map.width - 3");
    page.click((right, free));
    assert_eq!(page.text("$('details').querySelector('h2').textContent"), "Free range");
    let left = page.number("$('map').getBoundingClientRect().left + 20");
    page.click((left, free));
    assert!(page.text("$('details').querySelector('h2').textContent").starts_with("Block #"));
}

#[test]
fn the_cursor_moves_in_time_by_pointer_and_keys_and_the_blocks_follow() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "time") else { return };
    let box_of = |page: &mut Chromium, side: &str| {
        page.number(&format!("$('timeline').getBoundingClientRect().{side}"))
    };
    let (left, top, width) =
        (box_of(&mut page, "left"), box_of(&mut page, "top"), box_of(&mut page, "width"));
    page.drag((left + 200.0, top + 60.0), (left + width / 2.0, top + 60.0), 8);
    let t = page.number("view.t") as usize;
    assert!(t > recording.events.len() / 3 && t < recording.events.len() * 2 / 3);
    assert_totals(&mut page, &recording, t);
    page.key("ArrowRight", false);
    assert_totals(&mut page, &recording, t + 1);
    page.key("ArrowLeft", false);
    page.key("ArrowLeft", false);
    assert_totals(&mut page, &recording, t - 1);
    page.key("ArrowRight", true);
    let frame = page.number("view.t") as usize;
    assert!(matches!(recording.events[frame - 1], Event::FrameEnd { .. }));
    assert_totals(&mut page, &recording, frame);
    page.key("End", false);
    assert_totals(&mut page, &recording, recording.events.len());
    page.key("Home", false);
    assert_totals(&mut page, &recording, 0);
    // The wheel zooms the timeline at the pointer; a double click shows all again.
    page.wheel((left + width / 2.0, top + 60.0), -400.0);
    assert!(page.number("view.timeline.span.size") < page.number("view.timeline.span.length") * 0.8);
    for unit in ["frames", "seconds", "events"] {
        page.click_on(&format!("#axis button[data-v={unit}]"));
        assert_eq!(page.text("view.timeline.axis.unit"), unit);
    }
}

#[test]
fn the_block_map_zooms_at_the_pointer_pans_and_fits() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "zoom") else { return };
    let range = live_named(&mut page, "mesh");
    let at = middle_of(&mut page, range);
    let before = page.number(&format!("view.map.share({} - $('map').getBoundingClientRect().left)", at.0));
    for _ in 0..3 {
        page.wheel(at, -500.0);
    }
    assert!(page.number("view.map.span.size") < 0.5);
    let after = page.number(&format!("view.map.share({} - $('map').getBoundingClientRect().left)", at.0));
    assert!((before - after).abs() < 1e-9, "what is under the pointer stays there");
    let a = page.number("view.map.span.a");
    page.drag(at, (at.0 + 60.0, at.1), 6);
    assert!(page.number("view.map.span.a") < a);
    page.key("f", false);
    assert!(page.value("view.map.span.all") == true);
}

#[test]
fn every_class_is_drawn_and_the_most_important_of_a_pixel_wins() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "classes") else { return };
    // At each pixel of each row, the class must be the highest of the ranges that touch the pixel.
    page.value(
        "globalThis.drawn = b => { const { first, count } = view.map.pixels(b), strip = view.map.strip(b); \
           return { low: first * strip.each, each: strip.each, cells: strip.cells.subarray(first - strip.first, first - strip.first + count) }; }; \
         globalThis.wrong = () => { const { model, moment } = view; let wrong = 0; \
         for (const b of moment.blocks) { const { low: from, each, cells } = drawn(b), list = moment.of(b), holes = []; \
           eachHole(model, list, moment.size[b], (low, high, padding) => { if (padding) holes.push([low, high]); }); \
           for (let p = 0; p < cells.length; p++) { const low = from + p * each, high = low + each; let best = low < moment.size[b] - 1e-3 ? FREE : NOTHING; \
             for (const i of list) { const o = model.offset[i], m = o + model.requested[i], e = m + model.beyond[i]; \
               const c = moment.classOf(i); if (o < high - 1e-3 && m > low + 1e-3) best = Math.max(best, c); \
               if (m < high - 1e-3 && e > low + 1e-3) best = Math.max(best, c === MOVE ? MOVE : ROUNDING); } \
             for (const [g, o] of holes) if (g < high - 1e-3 && o > low + 1e-3) best = Math.max(best, PADDING); \
             if (cells[p] < best) wrong++; } } return wrong; }",
    );
    let mut seen = std::collections::BTreeSet::new();
    let reserved =
        recording.events.iter().position(|event| matches!(event, Event::Reserved { .. })).unwrap() + 1;
    for t in [reserved, recording.events.len() / 2, recording.events.len() / 2 + 17] {
        for _ in 0..2 {
            page.value(&format!("goTo({t})"));
            page.settle();
            assert_eq!(page.number("wrong()"), 0.0, "at {t}");
            let classes = page
                .text("JSON.stringify([...new Set(view.moment.blocks.flatMap(b => [...drawn(b).cells]))])");
            seen.extend(serde_json::from_str::<Vec<u8>>(&classes).unwrap());
            page.value("{ const i = [...view.model.reserved.keys()].find(i => view.moment.has(i)); if (i >= 0) view.map.reveal(i); else view.map.span.set(0.02, 0.01); }");
        }
        page.value("view.map.fit()");
    }
    assert!([1, 2, 3, 4, 5, 6].iter().all(|class| seen.contains(class)), "{seen:?}");
}

#[test]
fn the_table_searches_by_name_address_block_and_size_and_sorts() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "search") else { return };
    let rows = |page: &mut Chromium| -> Vec<u32> {
        let text = page.text(
            "JSON.stringify([...document.querySelectorAll('#rows tbody tr')].map(r => +r.dataset.range))",
        );
        serde_json::from_str(&text).unwrap()
    };
    let search = |page: &mut Chromium, query: &str| {
        page.key("/", false);
        page.value("$('search').select()");
        page.type_text(query);
        rows(page)
    };
    for row in search(&mut page, "TEXTURE") {
        assert!(page.text(&format!("view.model.name({row})")).starts_with("texture"));
    }
    let found = search(&mut page, "texture >100k #2 0x0-0x7fffff");
    assert!(!found.is_empty());
    for &row in &found {
        assert!(page.number(&format!("view.model.requested[{row}]")) > 102_400.0);
        assert_eq!(page.number(&format!("view.model.block.id[view.model.blockOf[{row}]]")), 2.0);
        assert!(page.number(&format!("view.model.offset[{row}]")) <= f64::from(0x7f_ffff));
    }
    assert!(search(&mut page, "there is no such name").is_empty());
    assert!(page.text("$('rows').textContent").contains("Nothing matches"));
    search(&mut page, "mesh");
    page.click_on("#rows th:first-child button");
    let names: Vec<String> =
        rows(&mut page).iter().map(|row| page.text(&format!("view.model.name({row})"))).collect();
    let mut sorted = names.clone();
    sorted.sort_by_key(|name| name.split(' ').next_back().unwrap().parse::<u32>().unwrap());
    assert_eq!(names, sorted);
    page.click_on("#rows tbody tr:first-child");
    assert_eq!(page.text("$('details').querySelector('h2').textContent"), names[0]);
}

#[test]
fn two_moments_are_compared_as_sets_of_allocations() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "compare") else { return };
    let (a, b) = (recording.events.len() / 4, recording.events.len() / 2);
    for (t, key) in [(a, "a"), (b, "b")] {
        page.value(&format!("goTo({t})"));
        page.settle();
        page.key(key, false);
    }
    page.click_on("#tabs button[data-v=compare]");
    let timeline = Timeline::new(&recording);
    let [in_a, in_b] = [a, b].map(|t| {
        let cursor = Cursor::at(&timeline, t as u64);
        let is_program = |&i: &AllocationIndex| timeline.status_at(i, t as u64) != Status::Reserved;
        cursor.allocations().filter(is_program).collect::<std::collections::HashSet<_>>()
    });
    let text = page.text("$('difference').textContent");
    assert!(text.contains(&format!("only in B: {},", in_b.difference(&in_a).count())), "{text}");
    assert!(text.contains(&format!("only in A: {},", in_a.difference(&in_b).count())), "{text}");
    let count = |kind: &str| {
        text.split(&format!("{kind}: ")).nth(1).unwrap().split(',').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(count("in both") + count("moved"), in_a.intersection(&in_b).count());
}

/// The allocations and bytes that a rule means, for each sign: 1, then −1.
fn amounts(timeline: &Timeline<'_>, rule: LifetimeRule, moments: [u64; 4]) -> [(u64, u64); 2] {
    let mut amounts = [(0, 0); 2];
    for (allocation, sign) in rule.query(timeline, moments, LifetimeEnd::Freed) {
        let amount = &mut amounts[usize::from(sign < 0)];
        *amount = (amount.0 + 1, amount.1 + timeline.requested(allocation));
    }
    amounts
}

#[test]
fn each_lifetime_rule_finds_what_the_analysis_of_the_recording_finds() {
    let mut recording = recordings::program(200);
    // Also where nothing is known of memory from a moment on.
    recording.events.push(Event::Lost);
    let Some(mut page) = open(&recording, "lifetimes") else { return };
    let (timeline, end) = (Timeline::new(&recording), recording.events.len() as u64);
    for (k, rule) in LifetimeRule::ALL.into_iter().enumerate() {
        let described = page.text(&format!(
            "(r => JSON.stringify([r.name, r.question, marksOf(r).length]))(lifetimeRules()[{k}])"
        ));
        let described: (String, String, usize) = serde_json::from_str(&described).unwrap();
        assert_eq!(
            (&*described.0, &*described.1, described.2),
            (rule.name(), rule.question(), rule.markers())
        );
        let mut most = 0;
        for moments in [
            [0, 0, 0, 0],
            [0, end, end, end],
            [end / 5, end / 3, end / 2, end * 4 / 5],
            [end / 2, end / 2, end - 1, end],
            [end / 2, end * 2 / 3, end - 1, end - 1],
            [end - 1, end, end, end],
        ] {
            let [a, b, c, d] = moments;
            let found = page.text(&format!(
                "JSON.stringify(findLifetimes(view.model, lifetimeRules()[{k}], {{ a: {a}, b: {b}, c: {c}, d: {d} }}) \
                 .map(part => [part.list.length, part.bytes]))"
            ));
            let mut found: Vec<(u64, u64)> = serde_json::from_str(&found).unwrap();
            found.resize(2, (0, 0));
            let expected = amounts(&timeline, rule, moments);
            assert_eq!(found, expected, "{rule:?} at {moments:?}");
            most = most.max(expected[0].0);
        }
        assert!(most > 0, "{rule:?} is tested with something");
    }
}

#[test]
fn lifetimes_are_asked_with_a_rule_and_moments_and_a_row_selects_its_allocation() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "lifetimes") else { return };
    let (timeline, end) = (Timeline::new(&recording), recording.events.len() as u64);
    page.click_on("#tabs button[data-v=lifetimes]");
    let choose = |page: &mut Chromium, rule: LifetimeRule| {
        page.value(&format!(
            "$('rule').value = '{}'; $('rule').dispatchEvent(new Event('change'))",
            rule.name()
        ));
        page.settle();
        assert!(page.text("$('panel').textContent").contains(rule.question()));
        assert_eq!(
            page.number("$('panel').querySelectorAll('.marks button.btn').length"),
            rule.markers() as f64
        );
        assert_eq!(page.number("shownMarks().length"), rule.markers() as f64);
    };
    choose(&mut page, LifetimeRule::SpecificLifetime);
    let moments = [end / 5, end / 4, end / 4, end / 2];
    for (moment, mark) in moments.iter().zip(["a", "b", "c", "d"]) {
        page.value(&format!("goTo({moment})"));
        page.settle();
        page.click_on(&format!("#mark-{mark}"));
        assert_eq!(page.text("document.activeElement.id"), format!("mark-{mark}"));
    }
    let check = |page: &mut Chromium, rule: LifetimeRule, moments: [u64; 4]| {
        let [(count, _), (declined, _)] = amounts(&timeline, rule, moments);
        let shown = page.text("$('lifetimes').textContent");
        assert!(count > 0 && shown.contains(&format!("{count} allocation")), "{rule:?}, {count}: {shown}");
        assert!(
            !shown.contains("Declined") || shown.contains(&format!("Declined {declined} allocation")),
            "{shown}"
        );
        let rows = page.number("document.querySelectorAll('#panel tbody tr').length");
        assert_eq!(rows, (count + declined).min(200) as f64);
        let sizes = "[...document.querySelectorAll('#panel tbody tr')].map(r => view.model.requested[r.dataset.range])";
        assert!(page.value(&format!("{sizes}.every((size, k, all) => !k || size <= all[k - 1])")) == true);
    };
    check(&mut page, LifetimeRule::SpecificLifetime, moments);
    choose(&mut page, LifetimeRule::GrowthAndDecline);
    check(&mut page, LifetimeRule::GrowthAndDecline, moments);
    assert!(page.text("$('panel').textContent").contains("Declined"));
    // The heap of a block limits what is found, as in the other lists.
    page.value("setScope(1)");
    page.settle();
    let found = page.number("lifetimes.parts[0].list.length + lifetimes.parts[1].list.length");
    page.value("setScope(-1)");
    page.settle();
    assert!(found < page.number("lifetimes.parts[0].list.length + lifetimes.parts[1].list.length"));
    let range = page.number("+document.querySelector('#panel tbody tr:nth-child(2)').dataset.range");
    page.click_on("#panel tbody tr:nth-child(2)");
    assert_eq!(page.number("view.selected.range"), range);
    assert!(page.value("view.moment.has(view.selected.range)") == true);
    assert_eq!(page.number("document.querySelectorAll('#panel tr.sel').length"), 1.0);
    // A moment that passes others takes them with it.
    page.value(&format!("goTo({}); setMark('a')", end / 3));
    assert_eq!(
        page.text("JSON.stringify(MARKS.map(mark => view[mark]))"),
        format!("[{0},{0},{0},{1}]", end / 3, end / 2)
    );
}

#[test]
fn moments_of_lifetimes_begin_spread_over_the_recording_until_they_are_set() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "spread") else { return };
    let end = recording.events.len() as f64;
    let at = |page: &mut Chromium| -> Vec<f64> {
        page.click_on("#tabs button[data-v=lifetimes]");
        page.value("lifetimes.rule = 'specific-lifetime'; drawPanel()");
        serde_json::from_str(&page.text("JSON.stringify(shownMarks().map(([, t]) => t))")).unwrap()
    };
    assert_eq!(at(&mut page), [0.0, (end / 3.0).round(), (end * 2.0 / 3.0).round(), end]);
    let found = page.text("$('lifetimes').textContent");
    assert!(!found.contains("Found 0"), "{found}");
    // What is compared is still the whole recording.
    assert_eq!(page.text("JSON.stringify([view.a, view.b])"), format!("[0,{end}]"));
    page.value("goTo(900)");
    page.click_on("#mark-b");
    assert_eq!(at(&mut page), [0.0, 900.0, (900.0 + (end - 900.0) / 2.0).round(), end]);
    page.value("goTo(1200); setMark('d')");
    assert_eq!(at(&mut page), [0.0, 900.0, 1050.0, 1200.0]);
    assert_eq!(page.text("JSON.stringify([view.a, view.b])"), "[0,900]");
}

#[test]
fn a_list_that_changes_under_a_pressed_button_still_gets_the_click() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "pressed") else { return };
    page.click_on("#tabs button[data-v=lifetimes]");
    let at = page.middle_of("#mark-b");
    page.pointer("mouseMoved", at, 0);
    page.pointer("mousePressed", at, 1);
    page.value("goTo(900)");
    page.settle();
    page.pointer("mouseReleased", at, 0);
    page.settle();
    assert_eq!(page.number("view.b"), 900.0);
    // What waited is drawn: the list is that of the new moment.
    assert!(page.value("!panelWaits && !pressed") == true);
}

/// The call sites as a compiler writes them.
fn with_whole_paths(mut recording: Recording) -> Recording {
    for text in &mut recording.texts {
        if text.starts_with("src/") {
            *text = format!("/home/me/harbour/{text}");
        }
    }
    recording
}

/// The texts of the cells of the list, row by row; the headings are the first row.
fn cells(page: &mut Chromium) -> Vec<Vec<String>> {
    page.settle();
    let rows = "[...document.querySelectorAll('#panel tr')].map(r => [...r.cells].map(c => c.textContent))";
    serde_json::from_str(&page.text(&format!("JSON.stringify({rows})"))).unwrap()
}

#[test]
fn leaks_have_the_headings_and_rows_of_the_analysis_and_sort_by_a_click() {
    let recording = with_whole_paths(recordings::program(300));
    let Some(mut page) = open(&recording, "leaks") else { return };
    let timeline = Timeline::new(&recording);
    let leaks = Leaks::at(&Cursor::at(&timeline, timeline.end()), Grouping::CallSite);
    let table = leaks.table(&timeline, Grouping::CallSite);
    page.click_on("#tabs button[data-v=leaks]");
    assert_eq!(cells(&mut page), texts(&table));
    let headings: Vec<_> = table.columns.iter().map(|column| column.heading).collect();
    let rows =
        |order: &[usize]| -> Vec<_> { order.iter().map(|row| texts(&table)[row + 1].clone()).collect() };
    let mut order: Vec<_>;
    assert!(page.text("$('panel').textContent").starts_with(&table.summary[0]));
    assert!(
        page.value(
            "[...document.querySelectorAll('#panel td')].some(cell => cell.title.startsWith('/home/me/harbour/src/mesh.rs:') \
             && cell.textContent.startsWith('harbour/src/mesh.rs:'))"
        ) == true
    );
    // Numbers begin with the largest; a second click turns the order.
    let count = headings.iter().position(|&heading| heading == "Count").unwrap();
    let ranks = table.ranks(count);
    for down in [true, false] {
        page.click_on(&format!("#panel th:nth-child({}) button", count + 1));
        order = (0..table.rows.len()).collect();
        order.sort_by(|&a, &b| if down { ranks[b].cmp(&ranks[a]) } else { ranks[a].cmp(&ranks[b]) });
        assert_eq!(cells(&mut page)[1..], rows(&order), "down: {down}");
    }
    page.click_on("#panel tbody tr:first-child");
    assert_eq!(page.text("view.tab"), "table");
    assert!(page.number("document.querySelectorAll('#rows tbody tr').length") > 0.0);
}

/// The texts of a table, row by row; the headings are the first row.
fn texts(table: &Table) -> Vec<Vec<String>> {
    let headings = table.columns.iter().map(|column| column.heading.to_owned()).collect();
    let row = |row: &Row| row.cells.iter().map(Cell::text).collect();
    core::iter::once(headings).chain(table.rows.iter().map(row)).collect()
}

#[test]
fn free_ranges_and_descriptor_heaps_have_the_headings_and_rows_of_the_analysis() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "rows") else { return };
    let timeline = Timeline::new(&recording);
    for t in [recording.events.len() / 3, recording.events.len()] {
        page.value(&format!("goTo({t}); showTab('free')"));
        page.settle();
        let cursor = Cursor::at(&timeline, t as u64);
        // The page has padding among its free ranges, as the analysis has. The last column is a drawing.
        let mut without_pictures = |tab: &str| {
            page.value(&format!("showTab('{tab}')"));
            cells(&mut page).into_iter().map(|mut row| {
                row.pop();
                row
            })
        };
        let shown: Vec<_> = without_pictures("free").collect();
        assert_eq!(shown, texts(&Holes::of_scope(&cursor, Scope::All).table()), "at {t}");
        let shown: Vec<_> = without_pictures("descriptors").collect();
        assert_eq!(
            shown,
            texts(&DescriptorHeapRow::table(&timeline, &DescriptorHeapRow::all(&cursor))),
            "at {t}"
        );
    }
}

#[test]
fn allocations_have_the_headings_and_cells_of_the_analysis() {
    let recording = with_whole_paths(recordings::program(120));
    let Some(mut page) = open(&recording, "cells") else { return };
    let timeline = Timeline::new(&recording);
    page.value("goTo(view.model.end); table.most = 1e9; showTab('table')");
    let mut shown = cells(&mut page);
    shown[0].iter_mut().for_each(|heading| *heading = heading.trim_end_matches(" ↓").to_owned());
    let headings: Vec<_> = allocation_columns().iter().map(|column| column.heading).collect();
    assert_eq!(shown[0], headings);
    let cursor = Cursor::at(&timeline, timeline.end());
    let is_program = |&one: &AllocationIndex| timeline.status_at(one, timeline.end()) != Status::Reserved;
    let cell = |row, column| allocation_cell(&timeline, row, timeline.end(), column).text();
    let rows = cursor.allocations().filter(is_program);
    let mut expected: Vec<Vec<String>> =
        rows.map(|row| (0..headings.len()).map(|column| cell(row, column)).collect()).collect();
    let mut found: Vec<Vec<String>> = shown[1..].to_vec();
    // Those that are equal may be in either order.
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn allocations_sort_by_what_a_column_shows() {
    let mut recording = recordings::program(120);
    // So that whole paths are in another order than the parts of them that are shown.
    for (k, text) in recording.texts.iter_mut().enumerate().filter(|(_, text)| text.starts_with("src/")) {
        *text = format!("/home/{}/harbour/{text}", if k % 2 == 0 { "me" } else { "her" });
    }
    let Some(mut page) = open(&recording, "sorted") else { return };
    page.value("goTo(view.model.end); table.most = 1e9; table.whole = true; showTab('table')");
    let headings: Vec<_> = allocation_columns().iter().map(|column| column.heading).collect();
    let mut sorted_by = |heading: &str| -> Vec<String> {
        let column = headings.iter().position(|&other| other == heading).unwrap();
        page.value(&format!("document.querySelector('#rows th:nth-child({}) button').click()", column + 1));
        cells(&mut page)[1..].iter().map(|row| row[column].clone()).collect()
    };
    let frames =
        |text: &String| -> u64 { text.split_once(" frame").unwrap().0.replace(',', "").parse().unwrap() };
    let lifetimes: Vec<_> = sorted_by("Lifetime").iter().map(frames).collect();
    assert!(lifetimes.is_sorted_by(|a, b| a >= b) && lifetimes[0] > 1, "{lifetimes:?}");
    let sites = sorted_by("Call site");
    let place = |site: &String| -> (String, u64) {
        let (file, line) = site.rsplit_once(':').unwrap_or((site, "0"));
        (file.to_owned(), line.parse().unwrap())
    };
    let places: Vec<_> = sites.iter().map(place).collect();
    assert!(places.is_sorted() && places.first() != places.last(), "{places:?}");
}

#[test]
fn slots_of_several_ranges_count_once_and_a_peak_without_frames_has_its_event() {
    let mut recording = recordings::program(60);
    recording.events.retain(|event| !matches!(event, Event::FrameEnd { .. }));
    for event in &mut recording.events {
        if let Event::DescriptorsAllocated { count, .. } = event {
            *count = 3000;
        }
    }
    let Some(mut page) = open(&recording, "overlap") else { return };
    let timeline = Timeline::new(&recording);
    let heaps = DescriptorHeapRow::all(&Cursor::at(&timeline, timeline.end()));
    page.value("goTo(view.model.end); showTab('descriptors')");
    let mut shown = cells(&mut page);
    shown.iter_mut().for_each(|row| drop(row.pop()));
    assert_eq!(shown, texts(&DescriptorHeapRow::table(&timeline, &heaps)));
    assert!(heaps[0].peak.0 <= u64::from(heaps[0].heap.capacity));
    assert_eq!(shown[0].last().unwrap(), "Peak event");
}

#[test]
fn the_groups_of_two_moments_have_the_headings_and_rows_of_the_analysis() {
    let recording = with_whole_paths(recordings::program(300));
    let Some(mut page) = open(&recording, "groups") else { return };
    let (timeline, end) = (Timeline::new(&recording), recording.events.len() as u64);
    let at = |t: u64| Cursor::at(&timeline, t);
    let table = Difference::between(&at(end / 4), &at(end / 2), Grouping::CallSite).table(Grouping::CallSite);
    page.value(&format!("view.a = {}; view.b = {}; showTab('compare')", end / 4, end / 2));
    let mut shown = cells(&mut page);
    let mut expected = texts(&table);
    assert_eq!(shown.remove(0), expected.remove(0));
    // Of equally common names, either may be shown; so may of equally large changes.
    for rows in [&mut shown, &mut expected] {
        for row in rows.iter_mut() {
            row[1] = row[1].split_once(" and ").map_or("", |(_, others)| others).to_owned();
        }
        rows.sort_unstable();
    }
    assert_eq!(shown, expected);
}

#[test]
fn the_names_of_the_lists_fit_into_a_window_of_any_width() {
    let page = page_of(&recordings::program(60), "advice");
    for (width, most_rows) in [(1400, 2), (1385, 2), (1100, 2), (800, 3)] {
        let Some(mut page) = Chromium::open(&page, width, 900) else { return };
        let inside = "[...$('tabs').children].every(tab => tab.getBoundingClientRect().right <= $('tabs').getBoundingClientRect().right)";
        assert!(page.value(inside) == true, "at {width}");
        assert!(page.value("$('tabs').scrollWidth <= $('tabs').clientWidth") == true, "at {width}");
        assert!(page.value("document.documentElement.scrollWidth <= innerWidth") == true, "at {width}");
        let rows = page.number("new Set([...$('tabs').children].map(tab => tab.offsetTop)).size");
        assert!(rows <= f64::from(most_rows), "{rows} rows at {width}");
        page.value("scrollTo(0, 9999)");
        page.settle();
        page.picture(&format!("9-tabs-{width}.png"));
    }
}

#[test]
fn what_happened_is_listed_by_the_kinds_that_are_chosen() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "kinds") else { return };
    page.click_on("#tabs button[data-v=happenings]");
    let count = |is: fn(&Event) -> bool| recording.events.iter().filter(|event| is(event)).count();
    let (stalls, marks) = (
        count(|event| matches!(event, Event::Stalled { .. })),
        count(|event| matches!(event, Event::Mark { .. })),
    );
    let refusals = count(|event| matches!(event, Event::Refused { .. }));
    let rows = |page: &mut Chromium| page.number("document.querySelectorAll('#panel tbody tr').length");
    let buttons = page.text("[...$('kinds').children].map(button => button.textContent).join()");
    let expected = if refusals > 0 {
        format!("Stalls{stalls},Refusals{refusals},Marks{marks}")
    } else {
        format!("Stalls{stalls},Marks{marks}")
    };
    assert_eq!(buttons, expected);
    assert_eq!(rows(&mut page), (stalls + refusals + marks) as f64);
    page.click_on("#kind-stalls");
    assert_eq!(page.text("document.activeElement.id"), "kind-stalls");
    assert_eq!(page.text("$('kind-stalls').getAttribute('aria-pressed')"), "false");
    assert_eq!(rows(&mut page), (refusals + marks) as f64);
    page.picture("9-kinds.png");
    page.click_on("#kind-stalls");
    assert_eq!(rows(&mut page), (stalls + refusals + marks) as f64);
}

#[test]
fn leaks_descriptors_queues_and_refusals_have_their_lists() {
    let recording = recordings::program(300);
    let Some(mut page) = open(&recording, "lists") else { return };
    page.click_on("#tabs button[data-v=leaks]");
    let leaked = model::totals(&Timeline::new(&recording), recording.events.len() as u64);
    let text = page.text("$('panel').textContent");
    let pending = page.number(
        "(m => m.from.reduce((n, _, i) => n + (m.to[i] > m.end && m.pending[i] <= m.end), 0))(view.model)",
    );
    let expected = leaked["allocations"].as_u64().unwrap() - pending as u64;
    assert!(text.contains(&format!("{expected} unreleased allocations")), "{text}");
    page.click_on("#tabs button[data-v=descriptors]");
    assert!(page.text("$('panel').textContent").contains("resources"));
    page.click_on("#tabs button[data-v=queues]");
    assert!(page.text("$('panel').textContent").contains("upload ring"));
    page.click_on("#tabs button[data-v=happenings]");
    let stalls = recording.events.iter().filter(|event| matches!(event, Event::Stalled { .. })).count();
    let shown = page.number("[...document.querySelectorAll('#panel tbody tr')].filter(r => r.textContent.includes('stall')).length");
    assert_eq!(shown, stalls as f64);
    page.click_on("#panel tbody tr:last-child");
    let t = page.number("view.t") as usize;
    assert!(matches!(
        recording.events[t - 1],
        Event::Stalled { .. } | Event::Mark { .. } | Event::Refused { .. }
    ));
}

#[test]
fn allocations_that_share_bytes_are_in_lanes_and_counted_once() {
    let recording = recordings::program(120);
    let Some(mut page) = open(&recording, "aliasing") else { return };
    let timeline = Timeline::new(&recording);
    let mut most = 0;
    for t in (0..recording.events.len()).step_by(97) {
        page.value(&format!("goTo({t}); drawStale()"));
        let cursor = Cursor::at(&timeline, t as u64);
        let block = cursor.blocks().into_iter().find(|&block| timeline.block_info(block).aliased);
        let Some(block) = block else { continue };
        let lanes = Lanes::of(&cursor.placed(block));
        let found: (Vec<u32>, u32, u64, u64) = serde_json::from_str(&page.text(&format!(
            "(b => (({{ lane, count }}, {{ aliased, saved }}) => JSON.stringify([lane, count, aliased, saved]))(lanesOf(view.model, view.moment.of(b)), \
             view.moment.look(b)))(view.moment.blocks.find(b => view.model.block.id[b] === {}))",
            timeline.block_info(block).id.0
        )))
        .unwrap();
        assert_eq!(found, (lanes.lane, lanes.count, lanes.aliased, lanes.saved), "at {t}");
        most = most.max(lanes.count);
    }
    assert!(most > 2, "several overlap");
    page.click_on("#tabs button[data-v=aliasing]");
    assert!(page.text("$('aliased').textContent").contains("Memory saved"));
    // A click on a box in a lane selects its allocation.
    page.click_on("#panel canvas.plot");
    assert!(page.value("view.selected === null || view.selected.range != null") == true);
}

/// Where a byte of a picture is on the screen at a moment.
fn place_in_picture(page: &mut Chromium, id: &str, t: u64, offset: u64, top: u64, height: u64) -> (f64, f64) {
    page.value(&format!(
        "globalThis.found = (box => [box.left + timeScale(box.width).x({t} + 0.5), box.top + 2 + (1 - {offset} / {top}) * ({height} - 22)])\
         ((canvas => {{ canvas.scrollIntoView({{ block: 'center' }}); return canvas.getBoundingClientRect(); }})($('{id}')))"
    ));
    (page.number("found[0]"), page.number("found[1]"))
}

/// The resource that the picture of shared memory shows there: its name, or nothing.
fn shown_in_picture(page: &mut Chromium, t: u64, offset: u64, top: u64) -> Option<String> {
    let shown = page.value(&format!(
        "(({{ grid }}, {{ active }}, memory) => (box => box ? resourceName(view.model, active.of[boundResources(view.model).first[memory.first] + box - 1]) : null)\
         (grid.box[Math.floor((1 - {offset} / {top}) * grid.height) * grid.width + momentColumns(grid.width)({t})]))\
         (pictures.get('shared-picture'), boundResources(view.model), sharedMemories(view.model).find(memory => memory.row === shared.row) ?? sharedMemories(view.model)[0])"
    ));
    shown.as_str().map(str::to_owned)
}

#[test]
fn memory_that_resources_share_is_that_of_the_analysis_at_every_moment() {
    let recording = recordings::shared(24);
    let Some(mut page) = open(&recording, "shared") else { return };
    page.click_on("#tabs button[data-v=aliasing]");
    let timeline = Timeline::new(&recording);
    let all = SharedHistory::all(&timeline);
    let table = SharedHistory::table(&timeline, &all);
    let shown: Vec<Vec<String>> = cells(&mut page)
        .into_iter()
        .map(|mut row| {
            row.pop();
            row
        })
        .collect();
    assert_eq!(shown, texts(&table));
    let headings = page.text("[...$('shared').querySelectorAll('th')].map(th => th.title).join()");
    assert!(table.columns.iter().all(|column| headings.contains(column.help)), "{headings}");

    let name = |id: TextId| recording.text(id).unwrap_or_default().to_owned();
    let mut strong = 0;
    for t in (0..=timeline.end()).step_by(7) {
        for (row, of) in all.iter().enumerate() {
            let found: Vec<(String, u64, u64, bool)> = serde_json::from_str(&page.text(&format!(
                "((bound, memory) => JSON.stringify(residents(bound, memory, {t}).map(i => [resourceName(view.model, i), bound.offset[i], bound.size[i], activeAt(bound, i, {t})])))\
                 (boundResources(view.model), sharedMemories(view.model)[{row}])"
            )))
            .unwrap();
            let shared = SharedMemory::at(&timeline, of.allocation, t);
            let expected: Vec<_> = shared.iter().flat_map(|shared| &shared.resources).collect();
            let lines = expected.iter().map(|(_, is)| (name(is.name), is.offset, is.size, is.active));
            assert_eq!(found, lines.collect::<Vec<_>>(), "{} at {t}", row);
            if row > 0 {
                continue;
            }
            // The picture shows at each byte the resource that is active there.
            for offset in (MIB / 2..of.size).step_by(MIB as usize) {
                let has = |is: &&&(_, allotment_trace::recording::BoundResource)| {
                    is.1.active && (is.1.offset..is.1.offset + is.1.size).contains(&offset)
                };
                let active = expected.iter().find(has).map(|(_, is)| name(is.name));
                assert_eq!(shown_in_picture(&mut page, t, offset, of.size), active, "{offset} at {t}");
                strong += usize::from(active.is_some());
            }
        }
    }
    assert!(strong > 100, "{strong}");
    page.value("goTo(120)");
    page.settle();
    page.value("$('shared-picture').scrollIntoView({ block: 'center' })");
    page.picture("11-shared.png");
    page.value("view.theme = 'dark'; applyColours()");
    page.settle();
    page.picture("11-shared-dark.png");
}

#[test]
fn resources_in_shared_memory_are_chosen_by_pointer_and_keys_and_followed_in_time() {
    let recording = recordings::shared(24);
    let Some(mut page) = open(&recording, "shared") else { return };
    page.click_on("#tabs button[data-v=aliasing]");
    let timeline = Timeline::new(&recording);
    let all = SharedHistory::all(&timeline);
    let name = |resource| {
        let is = timeline.resource_at(resource, 0);
        recording.text(is.name).unwrap_or_default().to_owned()
    };
    // The second active span of the graphics buffer, under the pointer and clicked.
    let gbuffer = timeline.resources_of(all[0].allocation).find(|&one| name(one) == "gbuffer").unwrap();
    let (from, to) = timeline.active_spans(gbuffer)[1];
    let t = (from + to).div_ceil(2);
    let at = place_in_picture(&mut page, "shared-picture", t, 12 * MIB, all[0].size, 280);
    page.hover(at);
    let tip = page.text("$('tip').textContent");
    let spans = timeline.active_spans(gbuffer).len();
    for part in ["gbuffer", "14,680,064 B", "0x400000", &format!("span 2 of {spans}"), "the same byte: bloom"]
    {
        assert!(tip.contains(part), "{part}: {tip}");
    }
    page.click(at);
    assert_eq!(page.number("view.t"), t as f64);
    let chosen = page.text("$('chosen').textContent");
    assert!(chosen.contains("gbuffer") && chosen.contains(&format!("{spans} active spans")), "{chosen}");
    page.picture("11-shared-chosen.png");
    // A second click at the same place chooses the other resource there.
    page.click(at);
    assert!(page.text("$('chosen').textContent").starts_with("bloom"));

    // By keys: from the lowest offset up, and along the activations.
    page.value("$('shared-picture').focus(); shared.chosen = null");
    for expected in ["shadow map", "gbuffer"] {
        page.key("ArrowUp", false);
        assert!(page.text("$('chosen').textContent").starts_with(expected), "{expected}");
    }
    page.key("Enter", false);
    let next = timeline.active_spans(gbuffer)[2].0 + 1;
    assert_eq!(page.number("view.t"), next as f64);
    assert_eq!(page.text("document.activeElement.id"), "shared-picture");
    page.key("ArrowDown", false);
    assert!(page.text("$('chosen').textContent").starts_with("shadow map"));
    page.key("Escape", false);
    assert_eq!(page.text("$('chosen').textContent"), "");

    // What the timeline shows is what the picture shows.
    page.value("view.timeline.span.set(100, 50); redraw('time')");
    page.settle();
    page.settle();
    let at = place_in_picture(&mut page, "shared-picture", 120, 12 * MIB, all[0].size, 280);
    let active = SharedMemory::at(&timeline, all[0].allocation, 120).unwrap();
    let is_there = |is: &allotment_trace::recording::BoundResource| {
        is.active && (is.offset..is.offset + is.size).contains(&(12 * MIB))
    };
    let expected = active.resources.iter().find(|(_, is)| is_there(is)).map(|&(one, _)| name(one)).unwrap();
    page.hover(at);
    let tip = page.text("$('tip').textContent");
    assert!(tip.starts_with(&expected), "{expected}: {tip}");

    // Another memory: by the name in its row. The cursor goes to where it exists.
    let row = all.iter().position(|of| !of.has_active).unwrap();
    page.click_on(&format!("#memory-{row}"));
    assert!(page.text("$('panel').textContent").contains("A plan gives each resource its bytes"));
    let early = all.iter().position(|of| timeline.lifetime(of.allocation).freed.is_some()).unwrap();
    page.click_on(&format!("#memory-{early}"));
    let position = page.number("view.t") as u64;
    assert!(timeline.allocation_exists(all[early].allocation, position), "{position}");
    // Right after its allocation nothing is placed in it: its name leads to where most is.
    page.value(&format!("goTo({}); drawStale()", timeline.lifetime(all[early].allocation).allocated + 1));
    page.click_on(&format!("#memory-{early}"));
    let position = page.number("view.t") as u64;
    assert!(SharedMemory::at(&timeline, all[early].allocation, position).is_some(), "{position}");
    page.click_on("#shared-time");
    assert!(page.value("!view.timeline.span.all") == true);
    page.click_on("#shared-memory");
    let selected = page.text("view.model.name(view.selected.range)");
    assert_eq!(selected, "loading screen");
}

#[test]
fn ten_thousand_resources_with_a_million_events_are_drawn_at_the_cost_of_their_pixels() {
    let recording = recordings::large_shared(10_000, 1_000_000);
    let Some(mut page) = open(&recording, "many resources") else { return };
    let opened = page.number("view.opened");
    let mut draw = |what: &str| {
        page.number(&format!(
            "(() => {{ const at = performance.now(); {what}; drawAliasing($('panel')); return performance.now() - at; }})()"
        ))
    };
    let first = draw("view.tab = 'aliasing'");
    let moved = draw("view.t = 500000; view.moment = new Moment(view.model, view.t)");
    let zoomed = draw("view.timeline.span.set(400000, 200000)");
    let shown = page.number("sharedMemories(view.model)[0].last");
    assert_eq!(shown, 10_000.0);
    // Once all are placed, each pixel has one of the two resources of a pair.
    let every = "pictures.get('shared-picture').grid.box.every((box, i) => i % W < W / 50 || box > 0)";
    assert!(page.value(&every.replace('W', "pictures.get('shared-picture').grid.width")) == true);
    page.settle();
    page.value("showTab('aliasing', true)");
    page.settle();
    page.picture("12-many-shared.png");
    // No limit: a busy machine takes a few times as long.
    println!(
        "10,000 resources, 1,000,000 events: opened in {opened:.0} ms, first drawn in {first:.0} ms, at another moment in {moved:.0} ms, zoomed in {zoomed:.0} ms"
    );
}

#[test]
fn plans_with_all_lifetimes_known_are_those_of_the_analysis_and_a_click_shows_an_allocation() {
    let recording = recordings::program(120);
    let Some(mut page) = open(&recording, "planned") else { return };
    page.click_on("#tabs button[data-v=planned]");
    let timeline = Timeline::new(&recording);
    let memories = OfflineMemory::of(&timeline).unwrap();
    let plans = OfflineMemory::plan_all(&memories);
    assert!(memories.len() > 1);
    let found: Vec<[u64; 5]> = serde_json::from_str(&page.text(
        "JSON.stringify(plans(view.model).map(p => [p.type, p.allocations, p.recorded, p.peak, p.bound]))",
    ))
    .unwrap();
    let expected = memories.iter().zip(&plans).map(|(memory, plan)| {
        let allocations = memory.allocations.len() as u64;
        [memory.memory_type.0.into(), allocations, memory.recorded_peak, plan.peak(), plan.lower_bound()]
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    let shown = page.text("$('plans').textContent");
    assert!(plans.iter().all(|plan| shown.contains(&proved(plan))), "{shown}");

    // Every rectangle is that of an allocation, and no two overlap.
    let items: Vec<[u64; 4]> = serde_json::from_str(&page.text(
        "(all => JSON.stringify(Array.from(all.from, (from, k) => [from, from + all.life[k], all.offset[k], all.size[k]])))(placedItems(view.model))",
    ))
    .unwrap();
    assert_eq!(items.len(), memories.iter().map(|memory| memory.allocations.len()).sum::<usize>());
    assert!(page.value("(all => all.from.every((from, k) => (i => view.model.requested[i] === all.size[k] && view.model.name(i) === (view.model.text(all.name[k]) || view.model.name(i)))(rangeFrom(view.model, from))))(placedItems(view.model))") == true);
    let first = &items[..memories[0].allocations.len()];
    for (at, a) in first.iter().enumerate() {
        for b in &first[at + 1..] {
            let apart = a[1] <= b[0] || b[1] <= a[0] || a[2] + a[3] <= b[2] || b[2] + b[3] <= a[2];
            assert!(apart, "{a:?} and {b:?}");
        }
    }

    // The largest rectangle, under the pointer and clicked.
    page.value(
        "globalThis.large = (all => { let best = 0; for (let k = 1; k < plans(view.model)[0].drawn; k++) if (all.size[k] * all.life[k] > all.size[best] * all.life[best]) best = k; \
         const box = document.querySelector('#panel canvas.plot'); box.scrollIntoView({ block: 'center' }); const at = box.getBoundingClientRect(), { x } = timeScale(at.width), p = plans(view.model)[0]; \
         return { k: best, x: at.left + x(all.from[best] + all.life[best] / 2), y: at.top + (1 - (all.offset[best] + all.size[best] / 2) / p.peak) * (PICTURE_HEIGHT - 22) + 2 }; })(placedItems(view.model))",
    );
    page.settle();
    let at = (page.number("large.x"), page.number("large.y"));
    page.hover(at);
    let tip = page.text("$('tip').textContent");
    assert!(page.value("!$('tip').hidden") == true && tip.contains("planned at offset"), "{tip}");
    page.picture("10-planned.png");
    page.click(at);
    assert!(
        page.value("view.selected.range === rangeFrom(view.model, placedItems(view.model).from[large.k])")
            == true
    );
    page.value("view.theme = 'dark'; applyColours()");
    page.settle();
    page.picture("10-planned-dark.png");
}

#[test]
fn the_histogram_of_releases_is_the_analysis_of_the_recording() {
    let recording = recordings::program(200);
    let Some(mut page) = open(&recording, "releases") else { return };
    let timeline = Timeline::new(&recording);
    for t in [0, 500, recording.events.len() / 2, recording.events.len()] {
        let latency = ReleaseLatency::at(&timeline, t as u64);
        let found: (u64, u64, Vec<u64>, u64, u64, Option<u64>) = serde_json::from_str(&page.text(&format!(
            "(r => JSON.stringify([r.completed, r.immediate, [...r.frames], r.waiting.length, r.bytes, r.waiting[0] ? r.waiting[0].released - 1 : null]))(releases(view.model, {t}))"
        )))
        .unwrap();
        let oldest = latency.oldest.map(|(_, moment)| moment.event);
        assert_eq!(found.0, latency.completed, "at {t}");
        assert_eq!(found.1, latency.immediate, "at {t}");
        assert_eq!(found.2, latency.frames, "at {t}");
        assert_eq!((found.3, found.4, found.5), (latency.pending, latency.pending_bytes, oldest), "at {t}");
    }
    page.click_on("#tabs button[data-v=latency]");
    assert!(page.text("$('releases').textContent").contains("Freed after waiting"));
}

#[test]
fn a_name_that_is_markup_stays_a_name() {
    let mut recording = recordings::program(30);
    let mark = recording.texts.len() as u32 + 1;
    recording.texts.push(HOSTILE.to_owned());
    recording.events.push(Event::Mark { text: TextId(mark) });
    recording.header.device = HOSTILE.to_owned();
    let Some(mut page) = open(&recording, HOSTILE) else { return };
    page.settle();
    let range = live_named(&mut page, "</script>");
    page.value(&format!("show({range})"));
    for tab in LISTS {
        page.value(&format!("showTab('{tab}')"));
        page.settle();
    }
    assert_eq!(page.text("$('details').querySelector('h2').textContent"), HOSTILE);
    assert_eq!(page.text("document.title"), format!("{HOSTILE} – memory report"));
    assert_eq!(page.number("document.querySelectorAll('img').length"), 0.0);
}

#[test]
fn no_text_of_a_recording_is_part_of_the_html() {
    let mut recording = recordings::program(30);
    recording.header.device = HOSTILE.to_owned();
    let html = std::fs::read_to_string(page_of(&recording, HOSTILE)).unwrap();
    assert_eq!(html.matches("</script>").count(), 2, "the data's and the scripts' own");
    assert!(!html.contains("harmed") && !html.contains("loader.rs"));
}

#[test]
fn each_list_has_a_key_and_the_help_says_which() {
    let Some(mut page) = open(&recordings::program(60), "advice") else { return };
    let tabs: Vec<String> =
        serde_json::from_str(&page.text("JSON.stringify(TABS.map(([name]) => name))")).unwrap();
    assert_eq!(tabs.len(), 13);
    for (tab, key) in tabs.iter().zip(["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"]) {
        page.key(key, false);
        assert_eq!(page.text("view.tab"), *tab, "{key}");
        let shown = page.text("$('tabs').querySelector('[aria-selected=true]').dataset.v");
        assert_eq!(shown, *tab, "{key}");
    }
    // The lists after the tenth are next to it; there is none after the last.
    let next = [(".", 10), (".", 11), (".", 12), (".", 12), (",", 11)].map(|(key, tab)| (key, &tabs[tab]));
    for (key, tab) in next {
        page.key(key, false);
        assert_eq!(page.text("view.tab"), *tab, "{key}");
    }
    page.key("?", false);
    assert!(page.value("$('help').open") == true);
    let help = page.text("$('help').textContent");
    for part in ["1 … 9 0the first ten lists below", ", .previous and next list", "Fshow all"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    page.picture("8-help.png");
}

#[test]
fn advice_of_the_analysis_about_the_end_is_listed() {
    let recording = recordings::program(60);
    let Some(mut page) = open(&recording, "advice") else { return };
    let timeline = Timeline::new(&recording);
    let advice = advice(&Cursor::at(&timeline, timeline.end()), &AdviceThresholds::default());
    page.click_on("#tabs button[data-v=advice]");
    let shown: Vec<_> = cells(&mut page).concat();
    assert!(!shown.is_empty());
    assert_eq!(shown, advice.iter().map(ToString::to_string).collect::<Vec<_>>());
}

#[test]
fn a_recording_without_events_says_what_is_not_there() {
    let Some(mut page) = open(&Recording::default(), "nothing") else { return };
    for (tab, text) in [
        ("table", "Nothing is allocated"),
        ("leaks", "No unreleased allocations"),
        ("compare", "the same moment"),
        ("lifetimes", "No allocation answers this question"),
        ("free", "No block exists"),
        ("latency", "No memory was released"),
        ("aliasing", "no resources were placed in memory that they share. Gpu::allocate_memory"),
        ("descriptors", "no descriptor heaps"),
        ("queues", "no deletion queues"),
        ("happenings", "no refusals"),
        ("planned", "nothing to plan"),
    ] {
        page.value(&format!("showTab('{tab}')"));
        page.settle();
        let panel = page.text("$('panel').textContent");
        assert!(panel.contains(text), "{tab}: {panel}");
    }
    page.picture("6-nothing.png");
}

#[test]
fn a_million_allocations_open_with_the_totals_of_the_model_and_are_dragged() {
    let recording = recordings::large(1_000_000);
    let path = page_of(&recording, "a million");
    let megabytes = std::fs::metadata(&path).unwrap().len() as f64 / 1e6;
    let Some(mut page) = Chromium::open(&path, 1400, 900) else { return };
    let (opened, cpu) = (page.number("view.opened"), page.cpu());
    page.settle();
    page.value("goTo(view.model.end)");
    page.settle();
    assert_totals(&mut page, &recording, recording.events.len());
    page.picture("7-million.png");
    let (left, top) = (
        page.number("$('map').getBoundingClientRect().left"),
        page.number("$('map').getBoundingClientRect().top"),
    );
    page.wheel((left + 400.0, top + 100.0), -300.0);
    // The time that the drawing of each frame of a drag takes.
    page.value(
        "globalThis.times = []; globalThis.drawn = drawStale; \
         drawStale = () => { const at = performance.now(); drawn(); times.push(performance.now() - at); }",
    );
    let mut median = |from: (f64, f64), to: (f64, f64)| {
        page.value("times.length = 0");
        page.drag(from, to, 60);
        page.number("times.sort((a, b) => a - b)[times.length >> 1]")
    };
    let pan = median((left + 400.0, top + 300.0), (left + 700.0, top + 200.0));
    let travel = median((left + 300.0, top - 180.0), (left + 900.0, top - 180.0));
    println!(
        "a million allocations: {megabytes:.1} MB, opened in {opened:.0} ms, of which the page computed {cpu:.0} ms; \
         a frame of panning {pan:.1} ms; a step of time travel {travel:.1} ms"
    );
    // No limit: a busy machine takes a few times as long. The targets are a second and 16 ms on an idle one.
    assert!(pan > 0.0 && travel > 0.0, "each drag drew frames");
}

#[test]
fn pictures_of_the_views() {
    let recording = recordings::program(400);
    let Some(mut page) = open(&recording, "harbour_scene") else { return };
    page.settle();
    page.picture("1-open.png");
    let range = page.number("view.moment.all()[view.moment.all().length >> 1]") as u32;
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
    page.value("lifetimes.rule = 'specific-lifetime'; Object.assign(view, { a: 900, b: 2000, c: 2400, d: 3500, set: new Set(MARKS) }); showTab('lifetimes', true); scrollTo(0, 9999)");
    page.settle();
    page.picture("4-dark-lifetimes.png");
    page.value("lifetimes.rule = 'growth-and-decline'");
    page.value("view.palette = 'safe'; applyColours()");
    for (k, tab) in LISTS.iter().enumerate() {
        page.value(&format!("view.theme = 'light'; applyColours(); setMark('b'); view.a = 500; showTab('{tab}'); scrollTo(0, 9999)"));
        page.settle();
        page.picture(&format!("5-{k}-{tab}.png"));
    }
}

#[test]
fn what_the_library_has_for_itself_is_no_leak_of_the_program() {
    let device = SimulatedGpu::new(Profile::named("discrete-no-bar").unwrap());
    let gpu = Gpu::new(device, GpuDesc::default()).unwrap();
    let collector = Collector::new(&gpu).unwrap();
    let mesh = gpu.create_buffer(&BufferDesc::new(4096), &MemoryUsage::GpuOnly.with_name("mesh")).unwrap();
    gpu.uploads().write_buffer(&mesh, 0, &[1; 4096]).unwrap();
    gpu.begin_frame().unwrap().end().unwrap();
    let recording = collector.into_recording();
    let timeline = Timeline::new(&recording);
    let leaks = Leaks::at(&Cursor::at(&timeline, timeline.end()), Grouping::CallSite);
    assert!(leaks.count == 1 && leaks.library_count > 0);
    let Some(mut page) = open(&recording, "library") else { return };
    page.value("showTab('leaks')");
    page.settle();
    let shown = page.text("$('panel').textContent");
    assert!(shown.contains("1 unreleased allocation, 4.00 KiB"), "{shown}");
    let noun = if leaks.library_count == 1 { "allocation" } else { "allocations" };
    assert!(shown.contains(&format!("The library itself has {} {noun}", leaks.library_count)), "{shown}");
}

/// Adds stacks to a recording: to most allocations one of some that share their beginnings.
fn with_stacks(mut recording: Recording) -> Recording {
    let mut text = |text: &str| {
        recording.texts.push(text.to_owned());
        TextId(recording.texts.len() as u32)
    };
    let functions = [
        ("main", "src/main.rs:3"),
        ("game::load", "src/load.rs:30"),
        ("game::frame", "src/frame.rs:7"),
        ("game::sky::Dome::new", "src/sky.rs:12"),
        ("core::ops::function::FnOnce::call_once", ""),
        ("allotment::Gpu::create_buffer", "src/gpu.rs:1"),
        (HOSTILE, "src/harm.rs:1"),
    ]
    .map(|(function, place)| (text(function), text(place)));
    let mut stacks = vec![StackId::NONE];
    for (parent, call) in [(0, 0), (1, 1), (1, 2), (2, 3), (3, 3), (4, 5), (3, 4), (7, 5), (3, 6), (0, 5)] {
        let (function, place) = functions[call];
        let frame = StackFrame { parent: stacks[parent], function, place };
        stacks.push(recording.stacks.push(frame).unwrap());
    }
    let mut random = recordings::Random(7);
    let events = core::mem::take(&mut recording.events);
    for event in events {
        recording.events.push(event);
        if let Event::Allocated(is) = event {
            let stack = stacks[random.below(stacks.len() as u64) as usize];
            if !stack.is_none() {
                recording.events.push(Event::Stack { allocation: is.allocation, stack });
            }
        }
    }
    recording
}

/// The paths of calls, each with how many allocations and bytes it has.
fn paths(recording: &Recording, tree: &CallTree, left: bool) -> BTreeMap<String, (u64, u64)> {
    let text = |text| recording.text(text).unwrap_or("");
    let mut paths = vec![String::new()];
    for node in &tree.nodes()[1..] {
        paths.push(format!("{}/{}", paths[node.parent], node.call.label(text)));
    }
    let amount = |node: &CallNode| if left { node.left } else { node.total };
    let amounts = tree.nodes().iter().map(amount).map(|amount| (amount.count, amount.bytes));
    paths.into_iter().zip(amounts).filter(|(_, (count, _))| *count > 0).collect()
}

#[test]
fn the_calls_of_the_page_are_those_of_the_analysis() {
    let recording = with_stacks(recordings::program(300));
    let Some(mut page) = open(&recording, "calls") else { return };
    let timeline = Timeline::new(&recording);
    let (a, b) = (timeline.end() / 3, timeline.end() * 2 / 3);
    page.value(&format!("Object.assign(view, {{ a: {a}, b: {b} }}); goTo({b}); showTab('calls')"));
    page.settle();
    let questions = [
        ("now", CallQuestion::At(b), false),
        ("peak", CallQuestion::Peak, false),
        ("made", CallQuestion::Between(a, b), false),
        ("left", CallQuestion::Between(a, b), true),
        ("leaked", CallQuestion::Leaked, false),
    ];
    for (name, question, left) in questions {
        for (inverted, unfolded) in [(false, false), (true, false), (false, true)] {
            let tree = CallTree::of(&timeline, question, &CallTreeDesc { inverted, unfolded });
            let expected = paths(&recording, &tree, left);
            assert!(expected.len() > 5);
            let shown = page.text(&format!(
                "(t => {{ const path = n => n ? `${{path(t.parent[n])}}/${{callText(t.name[n])}}` : ''; return JSON.stringify(\
                 Object.fromEntries(t.name.map((_, n) => [path(n), [t.count[n], t.bytes[n]]]))); }})(callTree('{name}', {inverted}, {unfolded}))"
            ));
            let shown: BTreeMap<String, (u64, u64)> = serde_json::from_str(&shown).unwrap();
            assert_eq!(shown, expected, "{name} {inverted} {unfolded}");
        }
    }
}

#[test]
fn a_flame_graph_is_zoomed_searched_and_walked_by_keys() {
    let recording = with_stacks(recordings::program(300));
    let Some(mut page) = open(&recording, "flames") else { return };
    page.value("goTo(view.series.peak); showTab('calls', true)");
    page.settle();
    let call = |page: &mut Chromium, text: &str| {
        page.value(&format!(
            "[...$('flame').children].find(box => box.textContent.startsWith('{text}')).id = 'wanted'"
        ));
        page.settle();
    };
    assert!(page.text("$('flame').firstChild.textContent") == "all");
    call(&mut page, "game::load");
    let at = page.middle_of("#wanted");
    page.hover(at);
    let tip = page.text("$('tip').textContent");
    assert!(tip.contains("game::load") && tip.contains("src/load.rs:30") && tip.contains(" B"), "{tip}");
    // A click shows it in the whole width, with its callers above.
    page.click(at);
    assert_eq!(page.text("callText(calls.tree.name[calls.focus])"), "game::load src/load.rs:30");
    let widths = page.number("$('flame').querySelector('[data-node=\"' + calls.focus + '\"]').clientWidth / $('flame').clientWidth");
    assert!(widths > 0.98, "{widths}");
    page.picture("calls-zoomed.png");
    // Keys: to what it called, back, and out.
    page.value("$('flame').focus()");
    page.key("ArrowDown", false);
    assert!(page.value("calls.tree.parent[calls.at] === calls.focus") == true);
    page.key("ArrowUp", false);
    page.key("Escape", false);
    assert_eq!(page.number("calls.focus"), 0.0);
    page.key("ArrowDown", false);
    page.key("ArrowDown", false);
    page.key("ArrowRight", false);
    page.key("Enter", false);
    assert!(page.value("calls.focus === calls.at && calls.tree.depth[calls.focus] === 2") == true);
    page.key("Backspace", false);
    page.key("Escape", false);
    // The search dims the others, and says what was found.
    page.click_on("#call-search");
    page.type_text("dome");
    page.settle();
    let found = page.text("$('call-found').textContent");
    assert!(found.starts_with("found: "), "{found}");
    assert!(page.value("[...$('flame').children].every(box => box.classList.contains('dim') !== /Dome/.test(callText(calls.tree.name[+box.dataset.node])))") == true);
    page.picture("calls-found.png");
    page.value("calls.query = ''");
    page.click_on("#call-inverted");
    page.settle();
    assert!(page.value("calls.inverted") == true);
    page.click_on("#call-all");
    page.settle();
    page.picture("calls-inverted.png");

    // The details of an allocation have its whole stack, with machinery folded.
    page.value("select({ range: view.moment.all().find(i => stacksOf(view.model).of[i] === 8) })");
    page.settle();
    let stack = page.text("$('stack').textContent");
    assert!(stack.starts_with("… 2 calls of allocators, runtimes and dispatchers"), "{stack}");
    assert!(stack.contains("game::frame src/frame.rs:7main src/main.rs:3"), "{stack}");
    page.click_on("#stack-all");
    page.settle();
    assert!(page.text("$('stack').textContent").starts_with("allotment::Gpu::create_buffer"));
    page.picture("calls-details.png");
    assert_eq!(page.errors, [""; 0]);
}

#[test]
fn a_thousand_blocks_are_sorted_by_what_is_free_in_them_and_a_click_shows_one() {
    let Some(mut page) = open(&recordings::thousand_blocks(), "blocks") else { return };
    page.click_on("#order [data-v=waste]");
    page.settle();
    let free = "view.map.rows.filter(row => row.b != null).map(row => view.moment.look(row.b).free)";
    // The page begins where most is in use: before the last block, which stays empty.
    assert_eq!(page.number(&format!("({free}).length")), 999.0);
    assert_eq!(page.value(&format!("({free}).every((free, i, all) => !i || all[i - 1] >= free)")), true);
    page.picture("12-thousand-blocks.png");
    // Over the names of the blocks, in the first row.
    let first = page.number("view.map.rows.find(row => row.b != null).b");
    page.value("globalThis.found = (box => [box.left + 30, box.top + MAP_TOP + GROUP + 8])($('map').getBoundingClientRect())");
    let at = (page.number("found[0]"), page.number("found[1]"));
    page.click(at);
    page.wait_for(&format!(
        "view.selected?.block === {first} && $('details').textContent.includes('Block #')"
    ));
    // Three pools of one name are three groups with their numbers.
    page.click_on("#order [data-v=pool]");
    page.settle();
    let groups = page.text("view.map.rows.filter(row => row.group).map(row => row.group).join()");
    for pool in 0..3 {
        assert!(groups.contains(&format!("textures (pool {pool})")), "{groups}");
    }
}

#[test]
fn a_flame_graph_has_one_rectangle_for_narrow_calls_ends_of_names_and_the_width_of_the_window() {
    let mut recording = recordings::program(300);
    // One caller that calls very many functions, whose names differ at the end.
    let mut text = |text: String| {
        recording.texts.push(text);
        TextId(recording.texts.len() as u32)
    };
    let caller = (text("game::frame".to_owned()), text("src/main.rs:1".to_owned()));
    let names: Vec<_> = (0..2000)
        .map(|k| {
            let function = text(format!("engine::render::passes::allocate_the_memory_of_pass_{k}"));
            (function, text(format!("src/pass_{k}.rs:{k}")))
        })
        .collect();
    let mut push =
        |parent, (function, place)| recording.stacks.push(StackFrame { parent, function, place }).unwrap();
    let caller = push(StackId::NONE, caller);
    let stacks: Vec<_> = names.into_iter().map(|name| push(caller, name)).collect();
    let mut events = Vec::new();
    let mut used = 0;
    for event in core::mem::take(&mut recording.events) {
        events.push(event);
        if let Event::Allocated(is) = event {
            events.push(Event::Stack { allocation: is.allocation, stack: stacks[used % stacks.len()] });
            used += 1;
        }
    }
    recording.events = events;
    let Some(mut page) = open(&recording, "many calls") else { return };
    page.value("goTo(view.series.peak); showTab('calls', true)");
    page.settle();
    let level = "[...$('flame').children].filter(box => box.getAttribute('aria-level') === '3')";
    let children = page.number("calls.tree.children[calls.tree.children[0][0]].length");
    let more = page.number(&format!("+{level}.find(box => box.dataset.more).dataset.more"));
    let drawn = page.number(&format!("{level}.filter(box => !box.dataset.more).length"));
    assert!(more > 1.0 && drawn > 10.0);
    assert_eq!(more + drawn, children, "each call is drawn or counted");
    // A narrow one shows the end of its name.
    let texts = page.text(&format!("JSON.stringify({level}.map(box => box.textContent))"));
    assert!(texts.contains("\"…") && (texts.contains("more)") || texts.contains("\"+")), "{texts}");
    let fits = "[...$('flame').children].every(box => box.scrollWidth <= box.clientWidth + 1)";
    assert!(page.value(fits) == true);
    page.picture("calls-many.png");
    // A narrower window has a narrower graph.
    page.resize(1000, 900);
    page.settle();
    assert!(page.value("$('flame').firstChild.clientWidth <= $('flame').clientWidth") == true);
    assert!(page.value("$('flame').firstChild.clientWidth > $('flame').clientWidth - 3") == true);
    // A click on what is not drawn shows its caller in the whole width.
    page.value(&format!("{level}.find(box => box.dataset.more).id = 'wanted'"));
    page.click_on("#wanted");
    assert_eq!(page.text("callText(calls.tree.name[calls.focus])"), "game::frame src/main.rs:1");
}
