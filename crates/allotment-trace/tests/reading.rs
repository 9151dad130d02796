//! Reads valid traces.

mod common;

use allotment_trace::{Op, ResourceKind, Trace};
use common::{check, gzip, read_lines};

#[test]
fn events_keep_their_order_and_their_lines() {
    let trace =
        read_lines(&["a,7,100,16,image,an image", "m,,,,,", "a,3,50,64,buffer,", "f,7,,,,", "m,,,,,"])
            .unwrap();
    check(&trace);

    let lines: Vec<u64> = trace.events().iter().map(|event| event.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 6]);
    let ops: Vec<String> = trace
        .events()
        .iter()
        .map(|event| match event.op {
            Op::Allocate(index) => format!("allocate {}", trace.resource(index).id()),
            Op::Free(index) => format!("free {}", trace.resource(index).id()),
            Op::FrameEnd => "frame".to_owned(),
        })
        .collect();
    assert_eq!(ops, ["allocate 7", "frame", "allocate 3", "free 7", "frame"]);

    assert_eq!((trace.allocations(), trace.frees(), trace.frames()), (2, 1, 2));
    assert_eq!(trace.peak_live_bytes(), 150);
    assert_eq!(trace.live_at_end().iter().map(|&index| trace.resource(index).id()).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_header_alone_is_an_empty_trace() {
    for text in ["op,id,size,alignment,kind,name", "op,id,size,alignment,kind,name\n"] {
        let trace = Trace::read(text.as_bytes()).unwrap();
        check(&trace);
        assert!(trace.events().is_empty());
        assert_eq!(trace.peak_live_bytes(), 0);
    }
}

#[test]
fn the_name_of_a_buffer_is_its_usage_when_it_is_a_number() {
    let trace = read_lines(&[
        "a,0,1,1,buffer,194",
        "a,1,1,1,buffer,",
        "a,2,1,1,buffer,vertices of the kart",
        "a,3,1,1,buffer,4294967295",
        "a,4,1,1,image,194",
    ])
    .unwrap();
    check(&trace);
    let usages: Vec<_> = trace.resources().iter().map(|resource| resource.usage()).collect();
    assert_eq!(usages, [Some(194), None, None, Some(u32::MAX), None]);
    assert_eq!(trace.resources()[0].kind(), ResourceKind::Buffer { usage: Some(194) });
    assert_eq!(trace.resources()[0].name(), "194");
    assert_eq!(trace.resources()[2].name(), "vertices of the kart");
    assert_eq!(trace.resources()[4].kind(), ResourceKind::Image);
}

#[test]
fn the_largest_size_alignment_and_id_are_accepted() {
    let trace = read_lines(&["a,18446744073709551615,281474976710656,281474976710656,buffer,"]).unwrap();
    check(&trace);
    let resource = &trace.resources()[0];
    assert_eq!((resource.id(), resource.size(), resource.alignment()), (u64::MAX, 1 << 48, 1 << 48));
}

#[test]
fn quoted_fields_hold_commas_and_doubled_quotes() {
    let trace =
        read_lines(&[r#""a","0",1,1,"image","the ""big"" one, 2x2""#, r#"a,1,1,1,image,"""""#]).unwrap();
    check(&trace);
    assert_eq!(trace.resources()[0].name(), r#"the "big" one, 2x2"#);
    assert_eq!(trace.resources()[1].name(), "\"");
}

#[test]
fn line_numbers_stay_right_with_windows_line_ends_and_blank_lines() {
    let text = "\n\r\nop,id,size,alignment,kind,name\r\n\na,0,1,1,image,x\r\n\r\n\nm,,,,,\r\nf,0,,,,";
    let trace = Trace::read(text.as_bytes()).unwrap();
    check(&trace);
    let lines: Vec<u64> = trace.events().iter().map(|event| event.line).collect();
    assert_eq!(lines, [5, 8, 9]);
    assert_eq!(trace.resources()[0].name(), "x");
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = "\u{feff}op,id,size,alignment,kind,name\nm,,,,,\n";
    assert_eq!(Trace::read(text.as_bytes()).unwrap().frames(), 1);
}

#[test]
fn compressed_text_reads_like_plain_text() {
    let text = b"op,id,size,alignment,kind,name\na,0,1,1,image,x\nm,,,,,\n";
    assert_eq!(Trace::read(gzip(text).as_slice()).unwrap(), Trace::read(text.as_slice()).unwrap());
}

#[test]
fn several_gzip_members_read_as_one() {
    let mut bytes = gzip(b"op,id,size,alignment,kind,name\na,0,1,");
    bytes.extend(gzip(b""));
    bytes.extend(gzip(b"1,image,x\n"));
    assert_eq!(Trace::read(bytes.as_slice()).unwrap().allocations(), 1);
}

#[test]
fn a_source_that_yields_one_byte_at_a_time_and_is_interrupted_reads_the_same() {
    struct Stuttering<'a>(&'a [u8], bool);
    impl std::io::Read for Stuttering<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    let text = b"op,id,size,alignment,kind,name\na,0,1,1,image,x\nm,,,,,\n";
    let expected = Trace::read(text.as_slice()).unwrap();
    assert_eq!(Trace::read(Stuttering(text, false)).unwrap(), expected);
    assert_eq!(Trace::read(Stuttering(&gzip(text), false)).unwrap(), expected);
}
