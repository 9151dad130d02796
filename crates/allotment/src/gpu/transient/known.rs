//! What is known of each resource from the frames before, by its name: so that the driver is asked once.

use std::collections::HashMap;

use super::error::TransientHeapError;
use crate::device::{DedicatedNeed, Device, MemoryProperties, MemoryTypeIndex, Requirements, ResourceKind};
use crate::memory::{AllocationOptions, Allocator, MemoryUsage, Name, ShortName, Suitability};
use crate::transient::TransientDesc;

/// Resources that no frame has named since are forgotten once there are so many more than the last frame had.
const MOST_FORGOTTEN: usize = 256;

/// The description of a buffer or an image.
pub(super) enum Info<D: Device> {
    Buffer(D::BufferInfo<'static>),
    Image(D::ImageInfo<'static>),
}

impl<D: Device> Info<D> {
    pub(super) fn as_ref(&self) -> InfoRef<'_, D> {
        match self {
            Self::Buffer(info) => InfoRef::Buffer(info),
            Self::Image(info) => InfoRef::Image(info),
        }
    }
}

/// The description of a buffer or an image, which a program has.
pub(super) enum InfoRef<'a, D: Device> {
    Buffer(&'a D::BufferInfo<'static>),
    Image(&'a D::ImageInfo<'static>),
}

impl<D: Device> InfoRef<'_, D> {
    fn to_owned(&self) -> Info<D> {
        match *self {
            Self::Buffer(info) => Info::Buffer(info.clone()),
            Self::Image(info) => Info::Image(info.clone()),
        }
    }
}

impl<D: Device> PartialEq for InfoRef<'_, D> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Buffer(one), Self::Buffer(other)) => one == other,
            (Self::Image(one), Self::Image(other)) => one == other,
            _ => false,
        }
    }
}

/// A resource that a frame has described.
pub(super) struct Resource<D: Device> {
    pub(super) name: Name,
    pub(super) info: Info<D>,
    /// The next frame reads it.
    pub(super) is_history: bool,
    pub(super) requirements: Requirements,
    pub(super) desc: TransientDesc,
    /// How memory of its own is chosen, if it has some.
    pub(super) usage: MemoryUsage,
    /// The last frame that has described it.
    frame: u64,
    /// Another one of this name, which is described otherwise.
    other: Option<u32>,
}

/// What may share memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class {
    memory_type: MemoryTypeIndex,
    /// `Unknown` for all where the device has no granularity, and need not be kept apart.
    kind: ResourceKind,
}

pub(super) struct Known<D: Device> {
    resources: Vec<Resource<D>>,
    /// The last one of each name that came to be known.
    by_name: HashMap<Name, u32>,
    classes: Vec<Class>,
    next_key: u64,
}

impl<D: Device> Default for Known<D> {
    fn default() -> Self {
        Self { resources: Vec::new(), by_name: HashMap::new(), classes: Vec::new(), next_key: 0 }
    }
}

impl<D: Device> Known<D> {
    pub(super) fn get(&self, index: u32) -> &Resource<D> {
        &self.resources[index as usize]
    }

    /// Returns the name of a resource by the key that plans know it by.
    pub(super) fn name_of(&self, key: u64) -> ShortName {
        let found = self.resources.iter().find(|resource| resource.desc.key == key);
        ShortName::of(found.map(|resource| &resource.name))
    }

    /// Finds a resource of a frame by its name and its description. Asks the driver where it is new. One that is described
    /// otherwise is another resource, with another key.
    pub(super) fn find(
        &mut self,
        allocator: &Allocator<D>,
        frame: u64,
        name: Name,
        (info, is_history): (&InfoRef<'_, D>, bool),
    ) -> Result<u32, TransientHeapError> {
        let last = self.by_name.get(&name).copied();
        let (mut found, mut next) = (None, last);
        while let Some(index) = next {
            let known = &self.resources[index as usize];
            if known.frame == frame {
                return Err(TransientHeapError::NameUsedTwice { name: ShortName::of(Some(&name)) });
            }
            if known.info.as_ref() == *info && known.is_history == is_history {
                found = Some(index);
            }
            next = known.other;
        }
        if let Some(index) = found {
            self.resources[index as usize].frame = frame;
            return Ok(index);
        }
        let resource = self.described(allocator, name.clone(), info, is_history)?;
        self.next_key += 1;
        let index = self.resources.len() as u32;
        self.resources.push(Resource { frame, other: last, ..resource });
        self.by_name.insert(name, index);
        Ok(index)
    }

    /// Undoes that a frame has named a resource, which it could not use.
    pub(super) fn take_back(&mut self, index: u32) {
        self.resources[index as usize].frame = 0;
    }

    fn described(
        &mut self,
        allocator: &Allocator<D>,
        name: Name,
        info: &InfoRef<'_, D>,
        is_history: bool,
    ) -> Result<Resource<D>, TransientHeapError> {
        let device = allocator.device();
        let requirements = match *info {
            InfoRef::Buffer(info) => device.buffer_requirements(info),
            InfoRef::Image(info) => device.image_requirements(info),
        };
        let requirements = requirements
            .map_err(|source| TransientHeapError::Device { source, name: ShortName::of(Some(&name)) })?;
        let best = |usage: MemoryUsage| {
            let candidates = allocator.explain(&requirements, &AllocationOptions::new(usage));
            let is_suitable = |it: &Suitability| matches!(it, Suitability::Suitable { .. });
            candidates.into_iter().next().filter(|candidate| is_suitable(&candidate.suitability))
        };
        // Such memory is for what does not outlive a pass.
        let is_lazy = !is_history
            && best(MemoryUsage::Transient)
                .is_some_and(|candidate| candidate.properties.contains(MemoryProperties::LAZILY_ALLOCATED));
        let usage = if is_lazy { MemoryUsage::Transient } else { MemoryUsage::GpuOnly };
        let mut desc = TransientDesc::new(self.next_key, requirements.size).aligned(requirements.alignment);
        match best(MemoryUsage::GpuOnly) {
            Some(candidate) if !is_lazy && requirements.dedicated != DedicatedNeed::Required => {
                let granularity = device.properties().limits.buffer_image_granularity.get();
                let kind = if granularity > 1 { requirements.kind } else { ResourceKind::Unknown };
                desc = desc.of_class(self.class(Class { memory_type: candidate.memory_type, kind }));
            }
            // Where no memory type suits, its creation says so.
            _ => desc = desc.alone(),
        }
        Ok(Resource {
            name,
            info: info.to_owned(),
            is_history,
            requirements,
            desc,
            usage,
            frame: 0,
            other: None,
        })
    }

    fn class(&mut self, class: Class) -> u32 {
        let at = self.classes.iter().position(|&other| other == class).unwrap_or_else(|| {
            self.classes.push(class);
            self.classes.len() - 1
        });
        at as u32
    }

    /// Forgets the resources of which `keeps` says so, by key and last frame, where they have become many beside those of a plan.
    pub(super) fn forget(&mut self, planned: usize, keeps: impl Fn(u64, u64) -> bool) {
        if self.resources.len() <= planned + MOST_FORGOTTEN {
            return;
        }
        self.resources.retain(|resource| keeps(resource.desc.key, resource.frame));
        self.by_name.clear();
        for (at, resource) in (0..).zip(&mut self.resources) {
            resource.other = self.by_name.insert(resource.name.clone(), at);
        }
    }
}
