//! What errors, settings and numbers read like: each names what was asked for and what there is.

use core::error::Error as _;

use allotment_suballoc::json::object;
use allotment_suballoc::{
    Algorithm, Alignment, AlignmentError, AllocateError, Compaction, CompactionError, CreateError, GrowError,
    HandleError, MAX_SIZE, MoveError, Refused, Request, ResizeError, VirtualBlock,
};

#[test]
fn an_error_names_its_numbers() {
    let alignment = Alignment::new(64).unwrap();
    let too_large = "exceeds the limit of 281474976710656";
    for (text, parts) in [
        (CreateError::ZeroSize.to_string(), vec!["size is zero"]),
        (CreateError::TooLarge { size: 71 }.to_string(), vec!["size 71", too_large]),
        (CreateError::TooManyBlocks.to_string(), vec!["2^32 - 1 blocks"]),
        (AllocateError::ZeroSize.to_string(), vec!["size is zero"]),
        (AllocateError::TooLarge { size: 71 }.to_string(), vec!["size 71", too_large]),
        (
            AllocateError::NoSpace { size: 71, alignment, free: 72, largest_free: 73 }.to_string(),
            vec!["71 units at alignment 64", "72 units are free", "largest range has 73"],
        ),
        (
            AllocateError::NoSpaceBelow { size: 71, alignment, limit: 72 }.to_string(),
            vec!["71 units at alignment 64", "at or below 72"],
        ),
        (AllocateError::NotFree { offset: 71, size: 72 }.to_string(), vec!["72 units", "offset 71"]),
        (AllocateError::InOrder.to_string(), vec!["linear"]),
        (AllocateError::OneSided { algorithm: Algorithm::Buddy }.to_string(), vec!["the buddy algorithm"]),
        (AllocateError::RingInUse.to_string(), vec!["ring"]),
        (AllocateError::TooManyRegions.to_string(), vec!["clear it"]),
        (HandleError::Stale.to_string(), vec!["freed before"]),
        (HandleError::WrongBlock.to_string(), vec!["another block"]),
        (ResizeError::from(HandleError::Stale).to_string(), vec!["freed before"]),
        (ResizeError::ZeroSize.to_string(), vec!["free the range"]),
        (ResizeError::TooLarge { size: 71 }.to_string(), vec!["size 71", too_large]),
        (ResizeError::NoRoom { size: 71, largest: 72 }.to_string(), vec!["to 71 units", "at most 72"]),
        (ResizeError::TooManyRegions.to_string(), vec!["clear it"]),
        (GrowError::Smaller { size: 71, current: 72 }.to_string(), vec!["size 72", "to 71"]),
        (GrowError::TooLarge { size: 71 }.to_string(), vec!["size 71", too_large]),
        (GrowError::UpperInUse { ranges: 71 }.to_string(), vec!["71 ranges"]),
        (GrowError::TooManyRegions.to_string(), vec!["clear it"]),
        (CompactionError::InOrder.to_string(), vec!["in order"]),
        (CompactionError::WrongBlock.to_string(), vec!["another block"]),
        (CompactionError::TooManyRegions.to_string(), vec!["32 bits"]),
        (MoveError::WrongBlock.to_string(), vec!["another block"]),
        (MoveError::SourceFreed.to_string(), vec!["freed while it moved"]),
        (MoveError::PlaceFreed.to_string(), vec!["place", "was freed"]),
        (MoveError::Resized { from: 71, to: 72 }.to_string(), vec!["has 71 units", "destination 72"]),
    ] {
        for part in parts {
            assert!(text.contains(part), "no \"{part}\" in \"{text}\"");
        }
    }
}

#[test]
fn a_refusal_gives_the_data_back_and_reads_like_its_error() {
    let mut block = VirtualBlock::new(100, Algorithm::Tlsf).unwrap();
    let refused: Refused<&str> = block.allocate(Request::new(101), "mesh").unwrap_err();
    assert_eq!(refused.data, "mesh");
    assert_eq!(refused.to_string(), refused.error.to_string());
    assert!(format!("{refused:?}").starts_with("Refused { error: NoSpace { size: 101,"), "{refused:?}");
    assert_eq!(AllocateError::from(refused), refused.error);
}

#[test]
fn a_move_that_is_not_finished_reads_like_its_error() {
    let mut block = VirtualBlock::new(100, Algorithm::Tlsf).unwrap();
    let ranges: Vec<_> = (0..4).map(|i| block.allocate(Request::new(10), i).unwrap()).collect();
    block.free(ranges[0].handle).unwrap();
    let moved = block.next_move(&mut Compaction::new(), |_| Some(Alignment::ONE)).unwrap().unwrap();
    let mut other = VirtualBlock::<u32>::new(100, Algorithm::Tlsf).unwrap();
    let unfinished = other.finish_move(moved).unwrap_err();
    assert_eq!(unfinished.to_string(), MoveError::WrongBlock.to_string());
    assert_eq!(MoveError::from(unfinished), MoveError::WrongBlock);
}

#[test]
fn algorithms_and_alignments_are_written_and_read() {
    assert_eq!(Algorithm::ALL.map(|algorithm| algorithm.to_string()), ["tlsf", "buddy", "linear"]);
    assert_eq!(format!("{:>6}", Algorithm::Tlsf), "  tlsf");
    let alignment = Alignment::try_from(256).unwrap();
    assert_eq!((alignment.get(), alignment.to_string()), (256, "256".to_owned()));
    assert_eq!(format!("{alignment:?} {alignment:>4}"), "Alignment(256)  256");
    let refused: Result<Alignment, AlignmentError> = 3.try_into();
    assert!(refused.unwrap_err().to_string().contains('3'));
}

#[test]
fn the_largest_size_is_a_size() {
    let mut block = VirtualBlock::new(MAX_SIZE, Algorithm::Tlsf).unwrap();
    assert_eq!(block.room_for(&Request::new(MAX_SIZE)), Some(MAX_SIZE));
    assert_eq!(block.room_for(&Request::new(MAX_SIZE + 1)), None);
    let range = block.allocate(Request::new(1), ()).unwrap();
    block.resize(range.handle, MAX_SIZE).unwrap();
    let refused = block.resize(range.handle, MAX_SIZE + 1);
    assert_eq!(refused, Err(ResizeError::TooLarge { size: MAX_SIZE + 1 }));
    assert_eq!(block.grow(MAX_SIZE), Ok(()));
    assert_eq!(block.grow(MAX_SIZE + 1), Err(GrowError::TooLarge { size: MAX_SIZE + 1 }));
}

#[test]
fn fragmentation_is_the_part_of_the_free_space_that_one_request_cannot_have() {
    let mut block = VirtualBlock::new(100, Algorithm::Tlsf).unwrap();
    assert_eq!(block.detailed_statistics().fragmentation(), 0.0);
    let ranges: Vec<_> = (0..10).map(|_| block.allocate(Request::new(10), ()).unwrap()).collect();
    assert_eq!(block.detailed_statistics().fragmentation(), 0.0, "nothing is free");
    for at in [0, 3, 4, 5] {
        block.free(ranges[at].handle).unwrap();
    }
    assert_eq!(block.detailed_statistics().fragmentation(), 0.25, "30 of 40");
}

#[test]
fn an_array_of_json_has_its_elements_in_order() {
    let mut text = String::new();
    object(&mut text, |o| {
        o.array("all", |all| {
            all.raw(1.5)?;
            all.text("a \"b\"")?;
            all.object(|o| o.raw("c", true))?;
            all.raw(2)
        })
    })
    .unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value, serde_json::json!({ "all": [1.5, "a \"b\"", { "c": true }, 2] }));
}

#[test]
fn a_string_of_json_is_read_as_it_was_and_ends_no_script_of_a_page() {
    let name = "\"\\\n\r\t\u{1}\u{1f} </script> a/b <!-- wow! é \u{7f}";
    let mut text = String::new();
    object(&mut text, |o| o.object("inner", |o| o.text("name", name))).unwrap();
    assert_eq!(
        text,
        r#"{"inner":{"name":"\"\\\n\r\t\u0001\u001f <\/script> a/b <\u0021-- wow! é "#.to_string()
            + "\u{7f}\"}}"
    );
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value, serde_json::json!({ "inner": { "name": name } }));
}

#[test]
fn only_an_error_of_a_handle_has_a_source() {
    let source = ResizeError::from(HandleError::Stale);
    assert_eq!(source.source().map(ToString::to_string), Some(HandleError::Stale.to_string()));
    assert!(ResizeError::ZeroSize.source().is_none());
}
