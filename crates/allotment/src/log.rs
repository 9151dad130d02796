//! Events for the `tracing` crate, where the feature `tracing` is on. Without it the macro expands to nothing.
//!
//! The target of an event is `allotment::` and the name of the layer's module, so that a filter such as
//! `allotment::memory=debug` selects a layer. No event is emitted with a lock of a pool held, but some with the
//! lock of a release queue, a ring or the uploads of a `Gpu`.

/// Emits an event: its level, its layer, its fields, and what happened.
macro_rules! event {
    ($level:ident, $layer:literal, $($fields_and_message:tt)+) => {
        #[cfg(feature = "tracing")]
        tracing::event!(
            target: concat!("allotment::", $layer),
            tracing::Level::$level,
            $($fields_and_message)+
        )
    };
}

pub(crate) use event;
