// Writes the dumps `vma-*.json` of this folder: one program of each feature that a dump shows, for each version of VMA.
//
//   g++ -std=c++17 -DVER=330 -DNDEBUG -DVMA_HEADER=\"vk_mem_alloc.h\" vma_dumps.cpp -lvulkan && ./a.out vma-3.3.0 names
//
// VER is the version without dots. `names` gives names to pools, a third argument writes the small dump, and builds with
// -DVMA_DEBUG_MARGIN=64 -DVMA_DEBUG_DETECT_CORRUPTION=1 are those with margins. It ran on lavapipe.

#define VMA_IMPLEMENTATION
#define VMA_ASSERT(e)
#define VMA_HEAVY_ASSERT(e)
#include <vulkan/vulkan.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <mutex>
#include <cstdint>
#include <vector>
#include VMA_HEADER
#define CHECK(e) do { VkResult r_ = (e); if (r_ != VK_SUCCESS) { fprintf(stderr, "%s: %d\n", #e, r_); exit(1); } } while (0)
static VmaAllocator A;
static void save(const char* path, VkBool32 detailed) {
    char* s = nullptr; vmaBuildStatsString(A, &s, detailed);
    FILE* f = fopen(path, "wb"); fputs(s, f); fclose(f); vmaFreeStatsString(A, s);
}
struct B { VkBuffer b; VmaAllocation a; };
static B buffer(VkDeviceSize size, VkBufferUsageFlags use, VmaMemoryUsage usage, uint32_t flags, VmaPool pool, const char* name, void* data) {
    VkBufferCreateInfo bi = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO}; bi.size = size; bi.usage = use;
    VmaAllocationCreateInfo ai = {}; ai.usage = usage; ai.flags = flags; ai.pool = pool;
#if VER < 300
    if (name) { ai.flags |= VMA_ALLOCATION_CREATE_USER_DATA_COPY_STRING_BIT; ai.pUserData = (void*)name; } else ai.pUserData = data;
#else
    ai.pUserData = data;
#endif
    B r; CHECK(vmaCreateBuffer(A, &bi, &ai, &r.b, &r.a, nullptr));
#if VER >= 300
    if (name) vmaSetAllocationName(A, r.a, name);
#endif
    return r;
}
struct I { VkImage i; VmaAllocation a; };
static I image(uint32_t w, uint32_t h, VkImageTiling tiling, VkImageUsageFlags use, uint32_t flags, const char* name) {
    VkImageCreateInfo ii = {VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO}; ii.imageType = VK_IMAGE_TYPE_2D; ii.format = VK_FORMAT_R8G8B8A8_UNORM;
    ii.extent = {w, h, 1}; ii.mipLevels = 1; ii.arrayLayers = 1; ii.samples = VK_SAMPLE_COUNT_1_BIT; ii.tiling = tiling; ii.usage = use;
    VmaAllocationCreateInfo ai = {}; ai.usage = VMA_MEMORY_USAGE_GPU_ONLY; ai.flags = flags;
#if VER < 300
    if (name) { ai.flags |= VMA_ALLOCATION_CREATE_USER_DATA_COPY_STRING_BIT; ai.pUserData = (void*)name; }
#endif
    I r; CHECK(vmaCreateImage(A, &ii, &ai, &r.i, &r.a, nullptr));
#if VER >= 300
    if (name) vmaSetAllocationName(A, r.a, name);
#endif
    return r;
}
static VmaPool pool(uint32_t flags, VkDeviceSize block, size_t min, size_t max, const char* name, uint32_t inUse = 0) {
    VmaPoolCreateInfo pi = {}; pi.memoryTypeIndex = 0; pi.flags = flags; pi.blockSize = block; pi.minBlockCount = min; pi.maxBlockCount = max;
#if VER < 300
    pi.frameInUseCount = inUse;
#endif
    VmaPool p; CHECK(vmaCreatePool(A, &pi, &p));
#if VER >= 230
    if (name) vmaSetPoolName(A, p, name);
#endif
    return p;
}
int main(int argc, char** argv) {
    std::string out = argv[1]; bool poolNames = argc > 2;
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO}; app.apiVersion = VER >= 230 ? VK_API_VERSION_1_1 : VK_API_VERSION_1_0;
    VkInstanceCreateInfo ic = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO}; ic.pApplicationInfo = &app;
    VkInstance inst; CHECK(vkCreateInstance(&ic, nullptr, &inst));
    uint32_t n = 1; VkPhysicalDevice pd; vkEnumeratePhysicalDevices(inst, &n, &pd);
    float prio = 1; VkDeviceQueueCreateInfo q = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO}; q.queueCount = 1; q.pQueuePriorities = &prio;
    VkDeviceCreateInfo dc = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO}; dc.queueCreateInfoCount = 1; dc.pQueueCreateInfos = &q;
    VkDevice dev; CHECK(vkCreateDevice(pd, &dc, nullptr, &dev));
    VmaAllocatorCreateInfo ac = {}; ac.physicalDevice = pd; ac.device = dev; ac.preferredLargeHeapBlockSize = 8 << 20;
#if VER >= 230
    ac.instance = inst; ac.vulkanApiVersion = VK_API_VERSION_1_1;
#endif
    CHECK(vmaCreateAllocator(&ac, &A));
    save((out + "-empty.json").c_str(), VK_TRUE);
    if (argc > 3) {
        buffer(1000, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT, VMA_MEMORY_USAGE_GPU_ONLY, 0, VK_NULL_HANDLE, "mesh", nullptr);
        B gone = buffer(3000, VK_BUFFER_USAGE_VERTEX_BUFFER_BIT, VMA_MEMORY_USAGE_GPU_ONLY, 0, VK_NULL_HANDLE, nullptr, nullptr);
        buffer(2000, VK_BUFFER_USAGE_INDEX_BUFFER_BIT, VMA_MEMORY_USAGE_GPU_ONLY, 0, VK_NULL_HANDLE, nullptr, (void*)(size_t)0xbeef);
        vmaDestroyBuffer(A, gone.b, gone.a);
        buffer(70000, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, VMA_MEMORY_USAGE_CPU_ONLY, VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT, VK_NULL_HANDLE, "staging", nullptr);
        VmaPool p = pool(0, 1 << 18, 0, 3, "frames");
        buffer(4000, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, 0, p, "ring", nullptr);
        save((out + "-small.json").c_str(), VK_TRUE);
        fflush(nullptr); _exit(0);
    }
    std::vector<B> all;
    const char* names[] = {"mesh 1", "quote \" back \\ tab \t end", "B\xfc" "cher", "\xe6\x9c\xa8", nullptr, ""};
    for (int i = 0; i < 24; ++i) {
        all.push_back(buffer(1000 + 7777 * i, i % 3 ? VK_BUFFER_USAGE_VERTEX_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT : VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT,
            i % 4 ? VMA_MEMORY_USAGE_GPU_ONLY : VMA_MEMORY_USAGE_CPU_TO_GPU, 0, VK_NULL_HANDLE, names[i % 6], (void*)(size_t)(0xbeef00 + i)));
    }
    for (int i = 0; i < 24; i += 5) { vmaDestroyBuffer(A, all[i].b, all[i].a); }
    image(64, 64, VK_IMAGE_TILING_OPTIMAL, VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT, 0, "albedo");
    image(33, 17, VK_IMAGE_TILING_LINEAR, VK_IMAGE_USAGE_TRANSFER_SRC_BIT, 0, nullptr);
    image(1280, 720, VK_IMAGE_TILING_OPTIMAL, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT, VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT, "colour");
    buffer(9 << 20, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, VMA_MEMORY_USAGE_CPU_ONLY, VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT, VK_NULL_HANDLE, "staging", nullptr);
    // Memory without a buffer or an image.
    VkMemoryRequirements need = {12345, 256, ~0u}; VmaAllocationCreateInfo raw = {}; raw.usage = VMA_MEMORY_USAGE_GPU_ONLY; VmaAllocation rawA;
    CHECK(vmaAllocateMemory(A, &need, &raw, &rawA, nullptr));
    VmaPool p0 = pool(0, 1 << 20, 0, 3, poolNames ? "frames \"0\"" : nullptr);
    for (int i = 0; i < 9; ++i) buffer(200000 + i, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, 0, p0, i == 4 ? "ring" : nullptr, nullptr);
    VmaPool p1 = pool(0, 1 << 18, 2, 8, nullptr); buffer(64, VK_BUFFER_USAGE_INDEX_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, 0, p1, nullptr, nullptr);
    pool(0, 1 << 18, 0, 0, poolNames ? "empty" : nullptr);
#if VER >= 210
    VmaPool p2 = pool(VMA_POOL_CREATE_LINEAR_ALGORITHM_BIT, 1 << 16, 1, 1, poolNames ? "linear" : nullptr);
    std::vector<B> lin;
    for (int i = 0; i < 12; ++i) lin.push_back(buffer(3000 + i * 111, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, 0, p2, nullptr, (void*)(size_t)(i + 1)));
    for (int i = 0; i < 5; ++i) vmaDestroyBuffer(A, lin[i].b, lin[i].a);
    vmaDestroyBuffer(A, lin[8].b, lin[8].a);
    for (int i = 0; i < 2; ++i) buffer(2000, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, 0, p2, nullptr, nullptr);
    VmaPool p3 = pool(VMA_POOL_CREATE_LINEAR_ALGORITHM_BIT, 1 << 16, 1, 1, nullptr);
    for (int i = 0; i < 6; ++i) buffer(1500 + i, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, i % 2 ? VMA_ALLOCATION_CREATE_UPPER_ADDRESS_BIT : 0, p3, nullptr, nullptr);
#endif
#if VER >= 220 && VER < 300
    VmaPool p4 = pool(VMA_POOL_CREATE_BUDDY_ALGORITHM_BIT, 1 << 17, 1, 2, poolNames ? "buddy" : nullptr);
    std::vector<B> bud;
    for (int i = 0; i < 8; ++i) bud.push_back(buffer(5000 + i * 1111, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, 0, p4, "b", nullptr));
    vmaDestroyBuffer(A, bud[3].b, bud[3].a);
#endif
#if VER >= 300
    VmaPool pd1 = pool(0, 0, 0, 0, poolNames ? "with dedicated" : nullptr);
    buffer(77777, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT, pd1, "own", nullptr);
#endif
#if VER < 300
    // Allocations that can become lost, of which some are.
    VmaPool pl = pool(0, 1 << 18, 0, 1, poolNames ? "lost" : nullptr, 1);
    vmaSetCurrentFrameIndex(A, 100);
    for (int i = 0; i < 4; ++i) buffer(50000, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, VMA_ALLOCATION_CREATE_CAN_BECOME_LOST_BIT, pl, nullptr, (void*)(size_t)(0x1000 + i));
    vmaSetCurrentFrameIndex(A, 110);
    for (int i = 0; i < 2; ++i) buffer(60000, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT, VMA_MEMORY_USAGE_UNKNOWN, VMA_ALLOCATION_CREATE_CAN_BECOME_LOST_BIT | VMA_ALLOCATION_CREATE_CAN_MAKE_OTHER_LOST_BIT, pl, nullptr, nullptr);
#endif
    save((out + ".json").c_str(), VK_TRUE);
    save((out + "-brief.json").c_str(), VK_FALSE);
#if VER >= 300
    for (int linear = 0; linear < 2; ++linear) {
        VmaVirtualBlockCreateInfo vi = {}; vi.size = 1 << 20; vi.flags = linear ? VMA_VIRTUAL_BLOCK_CREATE_LINEAR_ALGORITHM_BIT : 0;
        VmaVirtualBlock vb; CHECK(vmaCreateVirtualBlock(&vi, &vb)); std::vector<VmaVirtualAllocation> va;
        for (int i = 0; i < 10; ++i) { VmaVirtualAllocationCreateInfo ci = {}; ci.size = 500 + 500 * i; ci.alignment = 1 << (i % 8); ci.pUserData = i % 3 ? (void*)(size_t)i : nullptr;
            VmaVirtualAllocation v; VkDeviceSize o; CHECK(vmaVirtualAllocate(vb, &ci, &v, &o)); va.push_back(v); }
        for (int i = 1; i < 10; i += 3) vmaVirtualFree(vb, va[i]);
        char* s; vmaBuildVirtualBlockStatsString(vb, &s, VK_TRUE);
        FILE* f = fopen((out + (linear ? "-virtual-linear.json" : "-virtual.json")).c_str(), "wb"); fputs(s, f); fclose(f);
    }
#endif
    fflush(nullptr); _exit(0);
}
