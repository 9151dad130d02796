//! Observers that come and go: readers of events, recorders, viewers, and objects and callbacks that call back into the
//! library.

#[cfg(feature = "recorder")]
use core::time::Duration;
use std::sync::{Arc, Weak};

use allotment::descriptor::ShaderVisibleHeap;
use allotment::events::{EventBatch, EventSubscription, SubscriptionDesc};
use allotment::lifetime::SubmissionTracker;
use allotment::memory::defragmentation::Defragmenter;
use allotment::{Allocator, MemoryUsage, Requirements};

use super::Player;
use crate::Stressed;

/// A reader of events of the world's allocator or of a `Gpu`.
pub(crate) enum Observer {
    Events(EventSubscription),
    #[cfg(feature = "recorder")]
    Recorder(allotment_trace::Recorder),
    #[cfg(feature = "recorder")]
    Server(allotment_trace::live::LiveServer),
    /// Of a server, which may be gone.
    #[cfg(feature = "recorder")]
    Viewer(Box<allotment_trace::live::LiveRecording>),
}

/// An object whose destructor calls the library.
pub(crate) struct CallsBack<D: Stressed> {
    pub(crate) allocator: Weak<Allocator<D>>,
    pub(crate) heap: Option<Weak<ShaderVisibleHeap<D>>>,
    pub(crate) tracker: SubmissionTracker,
    pub(crate) what: u64,
}

impl<D: Stressed> Drop for CallsBack<D> {
    fn drop(&mut self) {
        match (self.what, self.heap.as_ref().and_then(Weak::upgrade)) {
            (0, Some(heap)) => drop(heap.reclaim()),
            (1, Some(heap)) => drop(heap.allocate(1)),
            (2, _) => drop(self.tracker.record("within a destructor")),
            (3, _) => self.tracker.poll(),
            _ => {
                let Some(allocator) = self.allocator.upgrade() else { return };
                if let Ok(token) = allocator.allocate(&Requirements::new(300), &MemoryUsage::GpuOnly.into()) {
                    drop(allocator.free(token));
                }
            }
        }
    }
}

impl<D: Stressed> Player<'_, D> {
    /// Attaches a reader, detaches one, or reads.
    pub(super) fn observe(&mut self) {
        match self.input.below(4) {
            0 => self.attach(),
            1 => {
                // Taken in a statement of its own: an observer waits for its thread, and not with the shelf locked.
                let observer = self.world.observers.take(&mut self.input);
                if let Some(observer) = observer {
                    self.detach(observer);
                }
            }
            _ => {
                let Some(mut observer) = self.world.observers.take(&mut self.input) else { return };
                self.look_through(&mut observer);
                drop(self.world.observers.put(observer));
            }
        }
    }

    /// Drops a reader, as a program does, or lets it end by itself.
    fn detach(&mut self, observer: Observer) {
        #[cfg(feature = "recorder")]
        if let Observer::Recorder(recorder) = observer {
            if self.input.once_in(2) {
                self.done(recorder.finish());
            } else {
                self.tally.made(self.call);
            }
            return;
        }
        drop(observer);
        self.tally.made(self.call);
    }

    fn look_through(&mut self, observer: &mut Observer) {
        match observer {
            Observer::Events(events) => {
                let _ = events.read(&mut EventBatch::new());
            }
            #[cfg(feature = "recorder")]
            Observer::Recorder(recorder) => recorder.mark("a moment"),
            #[cfg(feature = "recorder")]
            Observer::Server(server) => {
                if self.input.once_in(2) {
                    server.mark("a moment");
                } else if let Some(viewer) = self.view(server) {
                    drop(self.world.observers.put(viewer));
                }
            }
            #[cfg(feature = "recorder")]
            Observer::Viewer(viewer) => {
                let came = viewer.poll(Duration::ZERO);
                // It keeps everything that it is not told to forget.
                viewer.keep_last(1000);
                if let Err(error) = came {
                    self.end_of_viewer(&error);
                }
                return;
            }
        }
        self.tally.made(self.call);
    }

    #[cfg(feature = "recorder")]
    fn view(&mut self, server: &allotment_trace::live::LiveServer) -> Option<Observer> {
        match allotment_trace::live::LiveRecording::connect(server.address()) {
            Ok(viewer) => Some(Observer::Viewer(Box::new(viewer))),
            Err(error) => {
                self.end_of_viewer(&error);
                None
            }
        }
    }

    /// A server that is full, gone or slow is no finding. What it sends is a recording. One that ends while a viewer connects
    /// hangs up, as a server of something else would.
    #[cfg(feature = "recorder")]
    fn end_of_viewer(&mut self, error: &allotment_trace::live::LiveError) {
        use allotment_trace::live::LiveError::{
            Connect, Disconnected, Io, NotAServer, TooManyConnections, TooManyViewers, TooMuch,
        };
        let is_gone = matches!(error, Connect { .. } | Disconnected | Io(_) | NotAServer);
        if !is_gone && !matches!(error, TooManyConnections | TooManyViewers | TooMuch { .. }) {
            self.tally.find(format!("a viewer: {error:?}"));
        }
        self.tally.refused(self.call, error);
    }

    fn attach(&mut self) {
        // Few, or so slow that it loses some.
        let mut desc = SubscriptionDesc::default();
        desc.max_waiting_events = self.input.pick(&[1 << 12, 8, 64]);
        let gpu = self.world.gpus.all().first().cloned().filter(|_| self.input.once_in(2));
        #[cfg(feature = "recorder")]
        {
            let world = self.world;
            let begun = match self.input.below(4) {
                0 => {
                    let ring = allotment_trace::RingDesc::default().with_bytes(1 << 16);
                    let begun = match &gpu {
                        Some(own) => allotment_trace::Recorder::ring(&own.gpu, &ring),
                        None => allotment_trace::Recorder::ring(&*world.allocator, &ring),
                    };
                    Some(self.done(begun).map(Observer::Recorder))
                }
                1 => {
                    let queue = self.input.pick(&[4 << 20, 4 << 10]);
                    let desc = allotment_trace::live::LiveDesc::default().with_queue_bytes(queue);
                    let begun = match &gpu {
                        Some(own) => allotment_trace::live::LiveServer::bind_with(&own.gpu, &desc),
                        None => allotment_trace::live::LiveServer::bind_with(&*world.allocator, &desc),
                    };
                    Some(self.done(begun).map(Observer::Server))
                }
                _ => None,
            };
            if let Some(begun) = begun {
                drop(begun.and_then(|observer| world.observers.put(observer)));
                return;
            }
        }
        let subscribed = match &gpu {
            Some(own) => own.gpu.subscribe(&desc),
            None => self.world.allocator.subscribe(&desc),
        };
        if let Some(events) = self.done(subscribed) {
            drop(self.world.observers.put(Observer::Events(events)));
        }
    }

    /// Lets the world's defragmenter call back, or puts something in a queue whose destructor does.
    pub(super) fn call_back(&mut self) {
        let world = self.world;
        let calls_back = CallsBack {
            allocator: Arc::downgrade(&world.allocator),
            heap: world.descriptors.as_ref().map(|descriptors| Arc::downgrade(&descriptors.heap)),
            tracker: world.tracker.clone(),
            what: self.input.below(6),
        };
        match self.input.below(3) {
            0 => world.memory.deletion_queue().retire(calls_back),
            1 => {
                let recording = self.open.last().map(|open| open.recording.id());
                match recording {
                    Some(id) => world.memory.deletion_queue().retire_with(id, calls_back),
                    None => drop(calls_back),
                }
            }
            _ => {
                let set: Weak<Defragmenter<D>> = Arc::downgrade(&world.set);
                // The old callback goes, and calls back while it does.
                world.set.on_moved(move |one| {
                    if let Some(allocator) = calls_back.allocator.upgrade() {
                        let _ = (allocator.reports().info(one.id()), allocator.statistics());
                    }
                    if let Some(set) = set.upgrade() {
                        // Which does nothing in a callback.
                        let _ = set.step(allotment::memory::defragmentation::PassLimits::NONE);
                    }
                });
            }
        }
        self.tally.made(self.call);
    }
}
