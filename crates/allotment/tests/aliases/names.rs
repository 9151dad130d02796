//! The public names of the libraries that programs come from.

/// A library, and the page of the guide for its users.
pub(crate) struct Library {
    pub page: &'static str,
    /// Its functions, types and flags, apart by spaces. A method is written with its type where its name alone says too
    /// little. Masks, zeros and raw handles are left out.
    names: &'static [&'static str],
}

impl Library {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().flat_map(|names| names.split_whitespace())
    }
}

pub(crate) const LIBRARIES: [Library; 3] = [
    Library { page: "coming-from-vma.md", names: &[VMA_FUNCTIONS, VMA_TYPES, VMA_FLAGS, VK_MEM] },
    Library { page: "coming-from-d3d12ma.md", names: &[D3D12MA_FUNCTIONS, D3D12MA_TYPES, D3D12MA_FLAGS] },
    Library { page: "coming-from-gpu-allocator.md", names: &[GPU_ALLOCATOR] },
];

/// VMA 3.4.
const VMA_FUNCTIONS: &str = "
    vmaImportVulkanFunctionsFromVolk vmaCreateAllocator vmaDestroyAllocator vmaGetAllocatorInfo
    vmaGetPhysicalDeviceProperties vmaGetMemoryProperties vmaGetMemoryTypeProperties
    vmaSetCurrentFrameIndex vmaCalculateStatistics vmaGetHeapBudgets vmaFindMemoryTypeIndex
    vmaFindMemoryTypeIndexForBufferInfo vmaFindMemoryTypeIndexForImageInfo vmaCreatePool vmaDestroyPool
    vmaGetPoolStatistics vmaCalculatePoolStatistics vmaCheckPoolCorruption vmaGetPoolName vmaSetPoolName
    vmaAllocateMemory vmaAllocateDedicatedMemory vmaAllocateMemoryPages vmaAllocateMemoryForBuffer
    vmaAllocateMemoryForImage vmaFreeMemory vmaFreeMemoryPages vmaGetAllocationInfo
    vmaGetAllocationInfo2 vmaSetAllocationUserData vmaSetAllocationName vmaGetAllocationMemoryProperties
    vmaGetMemoryWin32Handle vmaGetMemoryWin32Handle2 vmaMapMemory vmaUnmapMemory vmaFlushAllocation
    vmaInvalidateAllocation vmaFlushAllocations vmaInvalidateAllocations vmaCopyMemoryToAllocation
    vmaCopyAllocationToMemory vmaCheckCorruption vmaBeginDefragmentation vmaEndDefragmentation
    vmaBeginDefragmentationPass vmaEndDefragmentationPass vmaBindBufferMemory vmaBindBufferMemory2
    vmaBindImageMemory vmaBindImageMemory2 vmaCreateBuffer vmaCreateBufferWithAlignment
    vmaCreateDedicatedBuffer vmaCreateAliasingBuffer vmaCreateAliasingBuffer2 vmaDestroyBuffer
    vmaCreateImage vmaCreateDedicatedImage vmaCreateAliasingImage vmaCreateAliasingImage2
    vmaDestroyImage vmaCreateVirtualBlock vmaDestroyVirtualBlock vmaIsVirtualBlockEmpty
    vmaGetVirtualAllocationInfo vmaVirtualAllocate vmaVirtualFree vmaClearVirtualBlock
    vmaSetVirtualAllocationUserData vmaGetVirtualBlockStatistics vmaCalculateVirtualBlockStatistics
    vmaBuildVirtualBlockStatsString vmaFreeVirtualBlockStatsString vmaBuildStatsString
    vmaFreeStatsString
";

const VMA_TYPES: &str = "
    VmaAllocator VmaPool VmaAllocation VmaDefragmentationContext VmaVirtualAllocation VmaVirtualBlock
    VmaDeviceMemoryCallbacks VmaVulkanFunctions VmaAllocatorCreateInfo VmaAllocatorInfo VmaStatistics
    VmaDetailedStatistics VmaTotalStatistics VmaBudget VmaAllocationCreateInfo VmaPoolCreateInfo
    VmaAllocationInfo VmaAllocationInfo2 VmaDefragmentationInfo VmaDefragmentationMove
    VmaDefragmentationPassMoveInfo VmaDefragmentationStats VmaVirtualBlockCreateInfo
    VmaVirtualAllocationCreateInfo VmaVirtualAllocationInfo VmaMemoryUsage
";

const VMA_FLAGS: &str = "
    VMA_ALLOCATOR_CREATE_EXTERNALLY_SYNCHRONIZED_BIT VMA_ALLOCATOR_CREATE_KHR_DEDICATED_ALLOCATION_BIT
    VMA_ALLOCATOR_CREATE_KHR_BIND_MEMORY2_BIT VMA_ALLOCATOR_CREATE_EXT_MEMORY_BUDGET_BIT
    VMA_ALLOCATOR_CREATE_AMD_DEVICE_COHERENT_MEMORY_BIT VMA_ALLOCATOR_CREATE_BUFFER_DEVICE_ADDRESS_BIT
    VMA_ALLOCATOR_CREATE_EXT_MEMORY_PRIORITY_BIT VMA_ALLOCATOR_CREATE_KHR_MAINTENANCE4_BIT
    VMA_ALLOCATOR_CREATE_KHR_MAINTENANCE5_BIT VMA_ALLOCATOR_CREATE_KHR_EXTERNAL_MEMORY_WIN32_BIT
    VMA_MEMORY_USAGE_UNKNOWN VMA_MEMORY_USAGE_GPU_ONLY VMA_MEMORY_USAGE_CPU_ONLY
    VMA_MEMORY_USAGE_CPU_TO_GPU VMA_MEMORY_USAGE_GPU_TO_CPU VMA_MEMORY_USAGE_CPU_COPY
    VMA_MEMORY_USAGE_GPU_LAZILY_ALLOCATED VMA_MEMORY_USAGE_AUTO VMA_MEMORY_USAGE_AUTO_PREFER_DEVICE
    VMA_MEMORY_USAGE_AUTO_PREFER_HOST VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT
    VMA_ALLOCATION_CREATE_NEVER_ALLOCATE_BIT VMA_ALLOCATION_CREATE_MAPPED_BIT
    VMA_ALLOCATION_CREATE_USER_DATA_COPY_STRING_BIT VMA_ALLOCATION_CREATE_UPPER_ADDRESS_BIT
    VMA_ALLOCATION_CREATE_DONT_BIND_BIT VMA_ALLOCATION_CREATE_WITHIN_BUDGET_BIT
    VMA_ALLOCATION_CREATE_CAN_ALIAS_BIT VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT
    VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT
    VMA_ALLOCATION_CREATE_HOST_ACCESS_ALLOW_TRANSFER_INSTEAD_BIT
    VMA_ALLOCATION_CREATE_STRATEGY_MIN_MEMORY_BIT VMA_ALLOCATION_CREATE_STRATEGY_MIN_TIME_BIT
    VMA_ALLOCATION_CREATE_STRATEGY_BEST_FIT_BIT VMA_ALLOCATION_CREATE_STRATEGY_FIRST_FIT_BIT
    VMA_ALLOCATION_CREATE_STRATEGY_MIN_OFFSET_BIT VMA_POOL_CREATE_IGNORE_BUFFER_IMAGE_GRANULARITY_BIT
    VMA_POOL_CREATE_LINEAR_ALGORITHM_BIT VMA_DEFRAGMENTATION_FLAG_ALGORITHM_FAST_BIT
    VMA_DEFRAGMENTATION_FLAG_ALGORITHM_BALANCED_BIT VMA_DEFRAGMENTATION_FLAG_ALGORITHM_FULL_BIT
    VMA_DEFRAGMENTATION_FLAG_ALGORITHM_EXTENSIVE_BIT VMA_DEFRAGMENTATION_MOVE_OPERATION_COPY
    VMA_DEFRAGMENTATION_MOVE_OPERATION_IGNORE VMA_DEFRAGMENTATION_MOVE_OPERATION_DESTROY
    VMA_VIRTUAL_BLOCK_CREATE_LINEAR_ALGORITHM_BIT VMA_VIRTUAL_ALLOCATION_CREATE_UPPER_ADDRESS_BIT
    VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_MEMORY_BIT
    VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_TIME_BIT
    VMA_VIRTUAL_ALLOCATION_CREATE_STRATEGY_MIN_OFFSET_BIT
";

/// vk-mem 0.5, without the types that have VMA's or Allotment's own names.
const VK_MEM: &str = "
    Allocator::new get_physical_device_properties get_memory_properties set_current_frame_index
    calculate_statistics get_heap_budgets free_memory free_memory_pages get_allocation_info
    get_allocation_info2 set_allocation_user_data map_memory unmap_memory flush_allocation
    invalidate_allocation check_corruption bind_buffer_memory bind_buffer_memory2 bind_image_memory
    bind_image_memory2 destroy_buffer destroy_image flush_allocations invalidate_allocations
    begin_defragmentation DefragmentationContext::begin_pass DefragmentationContext::end create_pool
    default_pool AllocatorPool::set_name AllocatorPool::name AllocatorPool::get_statistics
    AllocatorPool::calculate_statistics AllocatorPool::check_corruption Alloc::allocator Alloc::pool
    find_memory_type_index find_memory_type_index_for_buffer_info find_memory_type_index_for_image_info
    allocate_memory allocate_memory_pages allocate_memory_for_buffer allocate_memory_for_image
    create_buffer create_buffer_with_alignment create_image VirtualBlock::new VirtualBlock::allocate
    VirtualBlock::free VirtualBlock::clear VirtualBlock::get_allocation_info
    VirtualBlock::set_allocation_user_data AllocatorCreateInfo::new PoolCreateInfo::push_next
    AllocatorCreateInfo PoolCreateInfo AllocationCreateInfo AllocatorPool AllocationInfo2
    VirtualBlockCreateInfo VirtualAllocationCreateInfo VirtualAllocationInfo
";

/// D3D12MA 3.2.
const D3D12MA_FUNCTIONS: &str = "
    Allocation::GetOffset Allocation::GetAlignment Allocation::GetSize Allocation::GetResource
    Allocation::SetResource Allocation::GetHeap Allocation::SetPrivateData Allocation::GetPrivateData
    Allocation::SetName Allocation::GetName DefragmentationContext::BeginPass
    DefragmentationContext::EndPass DefragmentationContext::GetStats Pool::GetDesc Pool::GetStatistics
    Pool::CalculateStatistics Pool::SetName Pool::GetName Pool::BeginDefragmentation
    Allocator::GetD3D12Options Allocator::IsUMA Allocator::IsCacheCoherentUMA
    Allocator::IsGPUUploadHeapSupported Allocator::IsTightAlignmentSupported Allocator::GetBudget
    Allocator::GetMemoryCapacity Allocator::CreateResource Allocator::CreateResource2
    Allocator::CreateResource3 Allocator::AllocateMemory Allocator::CreateAliasingResource
    Allocator::CreateAliasingResource1 Allocator::CreateAliasingResource2 Allocator::CreatePool
    Allocator::SetCurrentFrameIndex Allocator::CalculateStatistics Allocator::BuildStatsString
    Allocator::FreeStatsString Allocator::BeginDefragmentation VirtualBlock::IsEmpty
    VirtualBlock::GetAllocationInfo VirtualBlock::Allocate VirtualBlock::FreeAllocation
    VirtualBlock::Clear VirtualBlock::SetAllocationPrivateData VirtualBlock::GetStatistics
    VirtualBlock::CalculateStatistics VirtualBlock::BuildStatsString VirtualBlock::FreeStatsString
    CreateAllocator CreateVirtualBlock IUnknown::Release
";

const D3D12MA_TYPES: &str = "
    ALLOCATION_CALLBACKS ALLOCATION_DESC Statistics DetailedStatistics TotalStatistics Budget
    VirtualAllocation Allocation DEFRAGMENTATION_DESC DEFRAGMENTATION_MOVE
    DEFRAGMENTATION_PASS_MOVE_INFO DEFRAGMENTATION_STATS DefragmentationContext POOL_DESC Pool
    ALLOCATOR_DESC Allocator VIRTUAL_BLOCK_DESC VIRTUAL_ALLOCATION_DESC VIRTUAL_ALLOCATION_INFO
    VirtualBlock CALLOCATION_DESC CPOOL_DESC CVIRTUAL_BLOCK_DESC CVIRTUAL_ALLOCATION_DESC
";

const D3D12MA_FLAGS: &str = "
    ALLOCATION_FLAG_COMMITTED ALLOCATION_FLAG_NEVER_ALLOCATE ALLOCATION_FLAG_WITHIN_BUDGET
    ALLOCATION_FLAG_UPPER_ADDRESS ALLOCATION_FLAG_CAN_ALIAS ALLOCATION_FLAG_STRATEGY_MIN_MEMORY
    ALLOCATION_FLAG_STRATEGY_MIN_TIME ALLOCATION_FLAG_STRATEGY_MIN_OFFSET
    ALLOCATION_FLAG_STRATEGY_BEST_FIT ALLOCATION_FLAG_STRATEGY_FIRST_FIT
    DEFRAGMENTATION_FLAG_ALGORITHM_FAST DEFRAGMENTATION_FLAG_ALGORITHM_BALANCED
    DEFRAGMENTATION_FLAG_ALGORITHM_FULL DEFRAGMENTATION_MOVE_OPERATION_COPY
    DEFRAGMENTATION_MOVE_OPERATION_IGNORE DEFRAGMENTATION_MOVE_OPERATION_DESTROY
    POOL_FLAG_ALGORITHM_LINEAR POOL_FLAG_MSAA_TEXTURES_ALWAYS_COMMITTED POOL_FLAG_ALWAYS_COMMITTED
    POOL_FLAG_DONT_USE_TIGHT_ALIGNMENT ALLOCATOR_FLAG_SINGLETHREADED ALLOCATOR_FLAG_ALWAYS_COMMITTED
    ALLOCATOR_FLAG_DEFAULT_POOLS_NOT_ZEROED ALLOCATOR_FLAG_MSAA_TEXTURES_ALWAYS_COMMITTED
    ALLOCATOR_FLAG_DONT_PREFER_SMALL_BUFFERS_COMMITTED ALLOCATOR_FLAG_DONT_USE_TIGHT_ALIGNMENT
    VIRTUAL_BLOCK_FLAG_ALGORITHM_LINEAR VIRTUAL_ALLOCATION_FLAG_UPPER_ADDRESS
    VIRTUAL_ALLOCATION_FLAG_STRATEGY_MIN_MEMORY VIRTUAL_ALLOCATION_FLAG_STRATEGY_MIN_TIME
    VIRTUAL_ALLOCATION_FLAG_STRATEGY_MIN_OFFSET
";

/// gpu-allocator 0.28.
const GPU_ALLOCATOR: &str = "
    MemoryLocation MemoryLocation::Unknown MemoryLocation::GpuOnly MemoryLocation::CpuToGpu
    MemoryLocation::GpuToCpu AllocatorDebugSettings AllocatorDebugSettings::log_memory_information
    AllocatorDebugSettings::log_leaks_on_shutdown AllocatorDebugSettings::store_stack_traces
    AllocatorDebugSettings::log_allocations AllocatorDebugSettings::log_frees
    AllocatorDebugSettings::log_stack_traces AllocationSizes AllocationSizes::new
    AllocationSizes::with_max_device_memblock_size AllocationSizes::with_max_host_memblock_size
    AllocationError AllocatorReport AllocationReport MemoryBlockReport Allocator::new
    Allocator::allocate Allocator::free Allocator::rename_allocation Allocator::report_memory_leaks
    Allocator::generate_report Allocator::capacity Allocation::chunk_id Allocation::offset
    Allocation::size Allocation::is_null AllocatorCreateDesc AllocationCreateDesc AllocationScheme
    AllocationScheme::DedicatedBuffer AllocationScheme::DedicatedImage
    AllocationScheme::GpuAllocatorManaged Allocation::try_as_mapped_slab Allocation::memory_properties
    Allocation::memory Allocation::is_dedicated Allocation::mapped_ptr Allocation::mapped_slice
    Allocation::mapped_slice_mut MappedAllocationSlab ID3D12DeviceVersion ResourceCategory
    ResourceStateOrBarrierLayout ResourceCreateDesc ResourceType Resource Resource::resource
    AllocationCreateDesc::from_d3d12_resource_desc Allocator::device Allocator::create_resource
    Allocator::free_resource Allocation::heap CommittedAllocationStatistics metal::Allocator::new
    metal::Allocator::allocate metal::Allocator::free metal::Allocator::generate_report
    metal::Allocator::capacity metal::Allocator::heaps metal::Allocator::residency_set
    metal::Allocation::heap metal::Allocation::size metal::Allocation::offset metal::Allocation::name
    metal::AllocationCreateDesc::buffer metal::AllocationCreateDesc::texture
    metal::AllocationCreateDesc::acceleration_structure_with_size AllocatorVisualizer::new
    AllocatorVisualizer::set_color_scheme AllocatorVisualizer::render_memory_block_ui
    AllocatorVisualizer::render_memory_block_window
    AllocatorVisualizer::render_memory_block_visualization_windows
    AllocatorVisualizer::render_breakdown_ui AllocatorVisualizer::render_breakdown_window ColorScheme
";
