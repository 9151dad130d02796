//! Code that a page of the guide has from an example, which is compiled and run.

use std::fs;

use crate::guide;

/// A page, and the folder of the example whose code it shows.
const PAGES: [(&str, &str); 2] =
    [("a-vulkan-renderer.md", "vulkan_renderer"), ("textures.md", "textured_scene")];

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_code_of_a_page_is_in_the_example_that_it_is_about() {
    for (page, example) in PAGES {
        let folder = guide::folder().join("../../crates/allotment/examples").join(example);
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|ext| ext == "rs"));
        let sources: Vec<String> = files.map(|path| fs::read_to_string(path).unwrap()).collect();
        let text = fs::read_to_string(guide::folder().join(page)).unwrap();
        let blocks: Vec<&str> = text.split("```rust,ignore\n").skip(1).collect();
        assert!(!blocks.is_empty(), "{page} has no code");
        for block in blocks {
            let (code, _) = block.split_once("```").unwrap();
            let code = lines(code);
            let is_in = |source: &String| lines(source).windows(code.len()).any(|lines| lines == code);
            assert!(sources.iter().any(is_in), "{page}: not in {example}:\n{}", code.join("\n"));
        }
    }
}
