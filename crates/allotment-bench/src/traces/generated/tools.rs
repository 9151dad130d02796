//! Generated traffic of other programs: an editor of documents, inference in batches, plain churn.

use std::collections::VecDeque;

use super::writer::{KIB, Live, MIB, Writer};

/// An editor: a document has layers of the size of its canvas, cut into tiles where the canvas is large. Edits add undo
/// states, of which the newest are kept; an export takes a few whole canvases for some frames.
pub(super) fn documents(out: &mut Writer) {
    struct Document {
        canvas: u64,
        layers: Vec<Live>,
        undo: VecDeque<Live>,
    }
    let mut documents: Vec<Document> = Vec::new();
    let tiled = out.once_in(2);
    let mut caches: Vec<Live> = Vec::new();
    for _ in 0..1500 {
        if documents.len() < 2 || (documents.len() < 6 && out.once_in(80)) {
            let canvas = u64::from(out.between(600, 4200)) * u64::from(out.between(600, 3200)) * 4;
            documents.push(Document { canvas, layers: Vec::new(), undo: VecDeque::new() });
        }
        let at = out.below(documents.len() as u32) as usize;
        let canvas = documents[at].canvas;
        let piece = if tiled { canvas.min(4 * MIB) } else { canvas };
        if out.once_in(8) && documents[at].layers.len() as u64 * piece < 10 * canvas {
            for _ in 0..canvas.div_ceil(piece) {
                let layer = out.image(piece);
                documents[at].layers.push(layer);
            }
        }
        if out.once_in(2) {
            let part = (canvas / u64::from(out.between(2, 60))).max(4 * KIB);
            let state = out.buffer(part);
            documents[at].undo.push_back(state);
            if documents[at].undo.len() > 20 {
                documents[at].undo.pop_front().into_iter().for_each(|state| out.free(state));
            }
        }
        // Thumbnails, brushes, histograms.
        let bytes = out.octaves(KIB, 256 * KIB);
        caches.push(out.buffer(bytes));
        if caches.len() > 150 {
            out.free_any(&mut caches);
        }
        if out.once_in(60) {
            let mut export: Vec<_> = (0..out.between(1, 3)).map(|_| out.image(canvas)).collect();
            (0..3).for_each(|_| out.frame());
            out.free_all(&mut export);
        }
        if documents.len() > 1 && out.once_in(90) {
            let mut document = documents.remove(at);
            out.free_all(&mut document.layers);
            document.undo.into_iter().for_each(|state| out.free(state));
        }
        out.frame();
    }
    for mut document in documents {
        out.free_all(&mut document.layers);
        document.undo.into_iter().for_each(|state| out.free(state));
    }
    out.free_all(&mut caches);
}

/// Inference: weights stay; each batch has a random size that its activations and workspaces scale with. An activation
/// is freed once the second layer after it was computed, some skip to the end, and results are kept for a while.
pub(super) fn batches(out: &mut Writer) {
    let layers = out.between(20, 60);
    let weights: Vec<_> = (0..layers)
        .map(|_| {
            let bytes = out.octaves(256 * KIB, 8 * MIB);
            out.buffer(bytes)
        })
        .collect();
    // Bytes of one element of the batch, by layer, and whether the activation is used at the end again.
    let shape: Vec<_> = (0..layers).map(|_| (out.octaves(32 * KIB, MIB), out.once_in(4))).collect();
    let mut results: Vec<Live> = Vec::new();
    let most = out.between(4, 48);
    for _ in 0..out.between(60, 100) {
        let batch = u64::from(out.between(1, most));
        let (mut recent, mut skips) = (VecDeque::new(), Vec::new());
        for &(bytes, skips_to_end) in &shape {
            let activation = out.buffer(bytes * batch);
            let workspace = out.octaves(16 * KIB, 4 * MIB);
            let workspace = out.buffer(workspace);
            let small: Vec<_> = (0..3)
                .map(|_| {
                    let bytes = out.octaves(512, 16 * KIB);
                    out.buffer(bytes)
                })
                .collect();
            out.free(workspace);
            small.into_iter().for_each(|buffer| out.free(buffer));
            if skips_to_end {
                skips.push(activation);
            } else {
                recent.push_back(activation);
            }
            if recent.len() > 2 {
                recent.pop_front().into_iter().for_each(|activation| out.free(activation));
            }
        }
        let bytes = out.octaves(4 * KIB, 64 * KIB);
        results.push(out.buffer(bytes * batch));
        if results.len() > 12 {
            out.free_any(&mut results);
        }
        skips.reverse();
        out.free_all(&mut skips);
        recent.into_iter().for_each(|activation| out.free(activation));
    }
    out.free_all(&mut results);
    weights.into_iter().for_each(|weight| out.free(weight));
}

/// Churn: sizes over all octaves up to one that the seed chooses. The live bytes rise to their highest, fall to a third
/// and rise again, and what is freed is chosen at random.
pub(super) fn churn(out: &mut Writer) {
    let largest = 1 << out.between(22, 26);
    let highest = largest * u64::from(out.between(12, 40));
    let mut live: Vec<Live> = Vec::new();
    for wave in 0..4 {
        let wanted = if wave % 2 == 0 { highest } else { highest / 3 };
        for _ in 0..1500 {
            let bytes = out.octaves(4 * KIB, largest / 2);
            live.push(out.buffer(bytes));
            while out.live > wanted {
                out.free_any(&mut live);
            }
        }
    }
    out.free_all(&mut live);
}
