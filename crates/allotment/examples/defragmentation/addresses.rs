//! Addresses: binding sets that hold two houses, a warehouse and a sign, wherever those are.
//!
//! No set is written again when something moves. What shaders read through the tables of some of them in each frame is
//! compared with what the address must name in that frame.

use allotment::device::{BufferUse, DescriptorDevice, SamplerDesc};
use allotment::memory::{Dedicated, MappedBuffer};
use allotment::prelude::*;
use allotment_readers::{DescriptorReader, Read, Sample};

use crate::buildings::Building;
use crate::common::Outcome;
use crate::signs::Sign;
use crate::works::{QUEUE, Works, seed};

/// Addresses of the town.
const ADDRESSES: usize = 64;

/// Addresses that are read in a frame; the sign of the first of them is sampled.
const READS: usize = 4;

/// The buildings of an address, in the order of its bindings: two houses and a warehouse. Then comes the sign.
const BUILDINGS: usize = 3;

/// What a descriptor of a building shows of it, and the bytes of it that are read.
const SHOWN: u64 = 256;
const READ: u64 = 4;

/// Texels of a sign's first row that are sampled.
const ROW: u32 = 64;

/// Bytes of a list of reads: a multiple of what descriptors and copies begin at.
const LIST: u64 = (READS * BUILDINGS * READ as usize).next_multiple_of(256) as u64;

struct Address<D: DescriptorDevice> {
    set: BindingSet<D>,
    /// The numbers of what it names.
    buildings: [u64; BUILDINGS],
    sign: u64,
}

impl<D: DescriptorDevice> Address<D> {
    fn bind_building(&mut self, binding: usize, building: &Building<D>) -> Outcome {
        self.set.bind_buffer(binding, 0, &building.buffer, 0..SHOWN, BufferUse::ReadOnly)?;
        self.buildings[binding] = building.number;
        Ok(())
    }

    fn bind_sign<R: DescriptorReader<D>>(&mut self, sign: &Sign<D>) -> Outcome {
        // SAFETY: the reader described the image for such a view, and it is sampled in that state.
        unsafe { self.set.bind_image(BUILDINGS, 0, &sign.image, &R::texture_view_info()) }?;
        self.sign = sign.number;
        Ok(())
    }
}

/// Who lives where: from which an address takes what it names.
pub(crate) struct Living<'a, D: DescriptorDevice> {
    pub(crate) houses: &'a [Building<D>],
    pub(crate) warehouses: &'a [Building<D>],
    pub(crate) signs: &'a [Sign<D>],
}

impl<'a, D: DescriptorDevice> Living<'a, D> {
    fn building<R: DescriptorReader<D>>(&self, binding: usize, works: &mut Works<D, R>) -> &'a Building<D> {
        let all = if binding < BUILDINGS - 1 { self.houses } else { self.warehouses };
        &all[works.below(all.len())]
    }

    fn sign<R: DescriptorReader<D>>(&self, works: &mut Works<D, R>) -> &'a Sign<D> {
        &self.signs[works.below(self.signs.len())]
    }
}

/// All addresses.
pub(crate) struct Addresses<D: DescriptorDevice> {
    all: Vec<Address<D>>,
    /// Lists of descriptors, for each frame in flight.
    lists: Vec<MappedBuffer<D>>,
    /// What is read, until it is copied to where the CPU reads it.
    results: Buffer<D>,
    picture: Buffer<D>,
    pub(crate) read: u64,
    pub(crate) rebound: u64,
}

impl<D: DescriptorDevice> Addresses<D> {
    /// `None` where the device has no descriptors that shaders index.
    pub(crate) fn new<R: DescriptorReader<D>>(works: &Works<D, R>) -> Outcome<Option<Self>> {
        let (gpu, Some(reader)) = (&works.gpu, &works.reader) else { return Ok(None) };
        // Outside of the blocks, of which the town measures how full they are.
        let options = |usage: MemoryUsage, name| usage.with_name(name).with_dedicated(Dedicated::Always);
        let list = || {
            let options = options(MemoryUsage::Upload, "descriptors to read");
            MappedBuffer::new(gpu.allocator(), &reader.buffer_info(LIST, false), &options)
        };
        let written = |size, name| {
            gpu.create_buffer(&reader.buffer_info(size, true), &options(MemoryUsage::GpuOnly, name))
        };
        let frames = gpu.desc().frames_in_flight.get();
        Ok(Some(Self {
            all: Vec::new(),
            lists: (0..frames).map(|_| list()).collect::<Result<_, _>>()?,
            results: written(LIST, "read through descriptors")?,
            picture: written(u64::from(ROW) * 4, "sampled")?,
            read: 0,
            rebound: 0,
        }))
    }

    /// An address whose house, warehouse or sign has gone names another, and so does one of the others. What is in flight
    /// goes on reading the old one.
    pub(crate) fn rebind<R: DescriptorReader<D>>(
        &mut self,
        gone: &[u64],
        living: &Living<'_, D>,
        works: &mut Works<D, R>,
    ) -> Outcome {
        while self.all.len() < ADDRESSES {
            let bindings = ["house", "neighbour", "warehouse", "sign"].map(Binding::mutable);
            let layout = works.gpu.descriptors()?.binding_layout(&bindings)?;
            let set = BindingSet::new(&layout)?;
            let mut address = Address { set, buildings: [0; BUILDINGS], sign: 0 };
            for binding in 0..BUILDINGS {
                address.bind_building(binding, living.building(binding, works))?;
            }
            address.bind_sign::<R>(living.sign(works))?;
            self.all.push(address);
        }
        let any = works.below(ADDRESSES);
        for (at, address) in self.all.iter_mut().enumerate() {
            for binding in 0..BUILDINGS {
                if gone.contains(&address.buildings[binding]) || (at, binding) == (any, 0) {
                    address.bind_building(binding, living.building(binding, works))?;
                    self.rebound += 1;
                }
            }
            if gone.contains(&address.sign) {
                address.bind_sign::<R>(living.sign(works))?;
                self.rebound += 1;
            }
        }
        Ok(())
    }

    /// The GPU reads through the descriptors of some addresses.
    pub(crate) fn look<R: DescriptorReader<D>>(
        &mut self,
        frame: &Frame<D>,
        works: &mut Works<D, R>,
    ) -> Outcome {
        let mut view = frame.transient_descriptors()?;
        let (mut indices, mut expected, mut sign) = (Vec::new(), Vec::new(), None);
        for _ in 0..READS {
            let address = &self.all[works.below(ADDRESSES)];
            let table = address.set.commit(&mut view)?.table.ok_or("an address has a table")?;
            for (index, number) in (table.first..).zip(address.buildings) {
                indices.extend_from_slice(&index.to_ne_bytes());
                expected.push((seed(number, 0), READ));
            }
            sign.get_or_insert((table.first + BUILDINGS as u32, address.sign));
        }
        let reader = works.reader.as_ref().filter(|_| works.is_read);
        let (Some(reader), Some((texture, sign))) = (reader, sign) else { return Ok(()) };

        let list = &self.lists[frame.slot()];
        list.write(0, &indices)?;
        let reads = [Read {
            heap: view.heap(),
            indices: &list.handle(),
            indices_offset: 0,
            count: expected.len() as u32,
            to: &self.results.handle(),
            to_offset: 0,
        }];
        // SAFETY: everything is alive until the GPU has completed the frame, the list is this frame's, and the results are
        // copied away in the order of the queue.
        frame.submit(QUEUE, |queue, waits| unsafe { reader.submit(queue, waits, &reads) })?;
        self.read += expected.len() as u64;
        let read = works.gpu.reads().read_buffer(&self.results, 0, expected.len() as u64 * READ)?;
        works.comparisons.expect(frame.number(), read, expected);

        let samplers = works.gpu.descriptors()?.samplers();
        let sampler = samplers.get(&SamplerDesc::default())?;
        let samplers = samplers.heap().begin(frame.recording())?;
        let sample = Sample {
            resources: view.heap(),
            texture,
            samplers: samplers.heap(),
            sampler: sampler.index(),
            extent: [ROW, 1],
            to: &self.picture.handle(),
        };
        // SAFETY: as above; the picture lies in its buffer, and the sign is in the state in which it is sampled.
        frame.submit(QUEUE, |queue, waits| unsafe { reader.sample(queue, waits, &sample) })?;
        self.read += 1;
        let row = (seed(sign, 0), self.picture.size());
        let read = works.gpu.reads().read_buffer(&self.picture, 0, row.1)?;
        works.comparisons.expect(frame.number(), read, [row]);
        Ok(())
    }
}
