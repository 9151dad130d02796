//! Generated traffic of programs that draw frames: a streamed world, levels, a user interface.

use std::collections::VecDeque;

use super::writer::{KIB, Live, MIB, Writer};

/// A world that is streamed: textures and meshes come as the camera moves; when too many bytes are resident, some go,
/// half of them the oldest, half at random. What is uploaded goes through staging memory that lives for three frames.
pub(super) fn streaming(out: &mut Writer) {
    let resident = u64::from(out.between(192, 1536)) * MIB;
    let frames = 2000;
    let targets: Vec<_> = (0..6).map(|_| out.image(8 * MIB)).collect();
    let mut assets: Vec<Live> = Vec::new();
    let mut staged: VecDeque<Vec<Live>> = VecDeque::new();
    // The camera stands still for some frames, then moves for some.
    let mut moving = 0;
    for frame in 0..frames {
        if moving == 0 && out.once_in(30) {
            moving = out.between(10, 120);
        }
        // The start of a session loads quickly.
        let loads = if frame < 60 {
            12
        } else if moving > 0 {
            out.below(8)
        } else {
            out.below(2)
        };
        moving = moving.saturating_sub(1);
        let mut staging = Vec::new();
        for _ in 0..loads {
            let asset = if out.below(5) < 3 {
                let bytes = out.texture_bytes();
                out.image(bytes)
            } else {
                let bytes = out.octaves(8 * KIB, 2 * MIB);
                out.buffer(bytes)
            };
            staging.push(out.staging(asset.size));
            assets.push(asset);
            while out.live > resident && assets.len() > 1 {
                if out.once_in(2) {
                    let oldest = assets.remove(0);
                    out.free(oldest);
                } else {
                    out.free_any(&mut assets);
                }
            }
        }
        staged.push_back(staging);
        if staged.len() > 3 {
            staged.pop_front().into_iter().flatten().for_each(|buffer| out.free(buffer));
        }
        out.frame();
    }
    staged.into_iter().flatten().for_each(|buffer| out.free(buffer));
    assets.into_iter().chain(targets).for_each(|asset| out.free(asset));
}

/// Levels of different sizes, loaded within a few frames and dropped whole, while a tenth stays. During a level some
/// assets are exchanged.
pub(super) fn levels(out: &mut Writer) {
    let scale = u64::from(out.between(150, 900)) * MIB;
    let mut stays = Vec::new();
    while out.live < scale / 10 {
        let bytes = out.texture_bytes();
        stays.push(out.image(bytes));
    }
    for _ in 0..out.between(5, 8) {
        // From half of the scale to one and a half.
        let wanted = scale / 2 + scale * u64::from(out.below(100)) / 100;
        let mut level: Vec<Live> = Vec::new();
        let texture_share = out.between(3, 8);
        let load = |out: &mut Writer, level: &mut Vec<Live>| {
            if out.below(10) < texture_share {
                let bytes = out.texture_bytes();
                level.push(out.image(bytes));
            } else {
                let bytes = out.octaves(4 * KIB, 4 * MIB);
                level.push(out.buffer(bytes));
            }
        };
        while out.live < wanted {
            load(out, &mut level);
            if out.once_in(100) {
                out.frame();
            }
        }
        for _ in 0..out.between(100, 400) {
            if out.once_in(3) {
                // An effect: a few buffers for some frames is too little to matter; an asset is exchanged.
                out.free_any(&mut level);
                load(out, &mut level);
            }
            // What a fight brings goes with the level.
            if out.once_in(10) && out.live < wanted + wanted / 10 {
                load(out, &mut level);
            }
            out.frame();
        }
        if out.once_in(3) {
            level.reverse();
        }
        out.free_all(&mut level);
        out.frame();
    }
    out.free_all(&mut stays);
}

/// A user interface: each window has images and many small buffers and lives as long as the user likes. Two glyph
/// atlases double now and then; the render targets follow the size of the main window.
pub(super) fn ui(out: &mut Writer) {
    let mut windows: Vec<Vec<Live>> = Vec::new();
    let most = out.between(6, 30) as usize;
    let mut atlas = [out.image(MIB), out.image(MIB)];
    let mut targets: Vec<Live> = (0..3).map(|_| out.image(8 * MIB)).collect();
    for _ in 0..2500 {
        if out.once_in(12) && windows.len() < most {
            let mut window = Vec::new();
            for _ in 0..out.between(1, 5) {
                let texels = u64::from(out.between(32, 1200)) * u64::from(out.between(32, 900));
                window.push(out.image(texels * 4));
            }
            for _ in 0..out.between(4, 40) {
                let bytes = out.octaves(256, 64 * KIB);
                window.push(out.buffer(bytes));
            }
            windows.push(window);
        }
        if out.once_in(14) && !windows.is_empty() {
            let at = out.below(windows.len() as u32) as usize;
            let mut window = windows.remove(at);
            out.free_all(&mut window);
        }
        // A list is scrolled: a window replaces some of its buffers.
        if out.once_in(2) && !windows.is_empty() {
            let at = out.below(windows.len() as u32) as usize;
            for _ in 0..out.between(1, 8) {
                out.free_any(&mut windows[at]);
                let bytes = out.octaves(256, 64 * KIB);
                let buffer = out.buffer(bytes);
                windows[at].push(buffer);
            }
        }
        if out.once_in(300) {
            let at = out.below(2) as usize;
            let size = if atlas[at].size >= 16 * MIB { MIB } else { atlas[at].size * 2 };
            // The new atlas is copied to before the old one goes.
            let grown = out.image(size);
            out.free(atlas[at]);
            atlas[at] = grown;
        }
        if out.once_in(200) {
            out.free_all(&mut targets);
            let texels = u64::from(out.between(640, 3840)) * u64::from(out.between(480, 2160));
            targets = (0..3).map(|_| out.image(texels * 4)).collect();
        }
        out.frame();
    }
    windows.iter_mut().for_each(|window| out.free_all(window));
    out.free_all(&mut targets);
    atlas.into_iter().for_each(|atlas| out.free(atlas));
}
