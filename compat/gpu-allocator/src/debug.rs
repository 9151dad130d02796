//! What an allocator logs.

/// What an allocator logs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AllocatorDebugSettings {
    /// Logs the device's memory types and heaps when the allocator is created, at the level `Debug`.
    pub log_memory_information: bool,
    /// Logs the allocations that are live when the allocator is dropped, at the level `Warn`.
    pub log_leaks_on_shutdown: bool,
    /// Stores a backtrace with each allocation, for the log of leaks. Takes some microseconds an allocation.
    #[cfg(feature = "std")]
    pub store_stack_traces: bool,
    /// Logs each allocation, at the level `Debug`.
    pub log_allocations: bool,
    /// Logs each free, at the level `Debug`.
    pub log_frees: bool,
    /// Logs a backtrace with each of those.
    #[cfg(feature = "std")]
    pub log_stack_traces: bool,
}

impl Default for AllocatorDebugSettings {
    fn default() -> Self {
        Self {
            log_memory_information: false,
            log_leaks_on_shutdown: true,
            #[cfg(feature = "std")]
            store_stack_traces: false,
            log_allocations: false,
            log_frees: false,
            #[cfg(feature = "std")]
            log_stack_traces: false,
        }
    }
}

impl AllocatorDebugSettings {
    pub(crate) fn stores_backtraces(&self) -> bool {
        #[cfg(feature = "std")]
        return self.store_stack_traces;
        #[cfg(not(feature = "std"))]
        false
    }

    /// Logs a request.
    pub(crate) fn note_allocation(&self, name: &str, size: u64, alignment: u64) {
        if self.log_allocations {
            log::debug!("allocating \"{name}\": {size} bytes at a multiple of {alignment}");
            self.note_backtrace();
        }
    }

    /// Logs a free.
    pub(crate) fn note_free(&self, name: impl FnOnce() -> String) {
        if self.log_frees {
            log::debug!("freeing \"{}\"", name());
            self.note_backtrace();
        }
    }

    fn note_backtrace(&self) {
        #[cfg(feature = "std")]
        if self.log_stack_traces {
            log::debug!("from\n{}", std::backtrace::Backtrace::force_capture());
        }
    }
}
