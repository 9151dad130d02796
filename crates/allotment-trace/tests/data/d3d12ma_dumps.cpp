// Writes the dumps `d3d12ma-*.json` of this folder: one program of each feature that a dump shows, for each version of D3D12MA.
//
//   x86_64-w64-mingw32-g++-posix -std=c++17 -DNDEBUG -fpermissive -include mutex -include shared_mutex -include atomic
//       -I include d3d12ma_dumps.cpp src/D3D12MemAlloc.cpp -ld3d12 -ldxgi -ldxguid -luuid -static
//   scripts/d3d12-on-linux exec a.exe d3d12ma-3.2.0
//
// The headers of Debian 12's mingw-w64 lack three of the heap flags, which are to be defined: HARDWARE_PROTECTED is 8,
// ALLOW_WRITE_WATCH 0x200, ALLOW_SHADER_ATOMICS 0x400. It ran under Wine, on lavapipe.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <windows.h>
#include <d3d12.h>
#include <dxgi1_4.h>
#include "D3D12MemAlloc.h"

#define CHECK(e) do { HRESULT r_ = (e); if (FAILED(r_)) { fprintf(stderr, "%s: %lx\n", #e, r_); exit(1); } } while (0)

static D3D12MA::Allocator* A;

static D3D12_RESOURCE_DESC buffer(UINT64 size) {
    D3D12_RESOURCE_DESC desc = {};
    desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
    desc.Width = size; desc.Height = 1; desc.DepthOrArraySize = 1; desc.MipLevels = 1;
    desc.SampleDesc.Count = 1; desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
    return desc;
}
static D3D12_RESOURCE_DESC texture(UINT size) {
    D3D12_RESOURCE_DESC desc = buffer(size);
    desc.Dimension = D3D12_RESOURCE_DIMENSION_TEXTURE2D;
    desc.Height = size; desc.MipLevels = 0; desc.Format = DXGI_FORMAT_R8G8B8A8_UNORM;
    desc.Layout = D3D12_TEXTURE_LAYOUT_UNKNOWN; desc.Flags = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET;
    return desc;
}
static D3D12MA::Allocation* make(D3D12_RESOURCE_DESC desc, D3D12_HEAP_TYPE type, int flags, D3D12MA::Pool* pool, const wchar_t* name) {
    D3D12MA::ALLOCATION_DESC d = {};
    d.HeapType = type; d.Flags = (D3D12MA::ALLOCATION_FLAGS)flags; d.CustomPool = pool;
    D3D12MA::Allocation* made = nullptr; ID3D12Resource* resource = nullptr;
    D3D12_RESOURCE_STATES state = type == D3D12_HEAP_TYPE_UPLOAD ? D3D12_RESOURCE_STATE_GENERIC_READ
        : type == D3D12_HEAP_TYPE_READBACK ? D3D12_RESOURCE_STATE_COPY_DEST : D3D12_RESOURCE_STATE_COMMON;
    CHECK(A->CreateResource(&d, &desc, state, nullptr, &made, IID_PPV_ARGS(&resource)));
    if (name) made->SetName(name);
    return made;
}

int main(int count, char** names) {
    IDXGIFactory4* factory = nullptr; IDXGIAdapter1* adapter = nullptr; ID3D12Device* device = nullptr;
    CHECK(CreateDXGIFactory1(IID_PPV_ARGS(&factory)));
    CHECK(factory->EnumAdapters1(0, &adapter));
    CHECK(D3D12CreateDevice(adapter, D3D_FEATURE_LEVEL_11_0, IID_PPV_ARGS(&device)));
    D3D12MA::ALLOCATOR_DESC desc = {}; desc.pDevice = device; desc.pAdapter = adapter; desc.PreferredBlockSize = 4 << 20;
    CHECK(D3D12MA::CreateAllocator(&desc, &A));
    for (int i = 0; i < 6; ++i) make(buffer(65536 * (i + 1)), D3D12_HEAP_TYPE_DEFAULT, 0, nullptr, i % 2 ? L"vertices" : nullptr);
    auto hole = make(buffer(300000), D3D12_HEAP_TYPE_DEFAULT, 0, nullptr, L"gone");
    make(texture(256), D3D12_HEAP_TYPE_DEFAULT, 0, nullptr, L"farge \u00e6\u00f8\u00e5 \"q\" \\");
    hole->Release();
    make(buffer(100000), D3D12_HEAP_TYPE_UPLOAD, 0, nullptr, L"staging");
    make(buffer(100000), D3D12_HEAP_TYPE_READBACK, D3D12MA::ALLOCATION_FLAG_COMMITTED, nullptr, L"readback");
    make(texture(1024), D3D12_HEAP_TYPE_DEFAULT, D3D12MA::ALLOCATION_FLAG_COMMITTED, nullptr, nullptr);
    D3D12MA::POOL_DESC pd = {};
    pd.HeapProperties.Type = D3D12_HEAP_TYPE_DEFAULT;
    pd.Flags = D3D12MA::POOL_FLAG_ALGORITHM_LINEAR;
    pd.HeapFlags = D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS; pd.BlockSize = 1000000; pd.MinBlockCount = 1; pd.MaxBlockCount = 2;
    D3D12MA::Pool* pool = nullptr;
    CHECK(A->CreatePool(&pd, &pool));
    pool->SetName(L"ring");
    for (int i = 0; i < 3; ++i) make(buffer(65536), D3D12_HEAP_TYPE_DEFAULT, 0, pool, L"in the ring");
    WCHAR* text = nullptr;
    for (int detailed = 0; detailed < 2; ++detailed) {
        A->BuildStatsString(&text, detailed);
        std::string name = std::string(names[1]) + (detailed ? "" : "-brief") + ".json";
        FILE* file = fopen(name.c_str(), "wb");
        fwrite(text, 2, wcslen(text), file);
        fclose(file);
        A->FreeStatsString(text);
    }
    printf("written\n");
    fflush(stdout);
    _exit(0);
}
