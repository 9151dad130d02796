// What `D3d12Reader` runs where a shader can see a whole heap: each thread takes an index, and the first 4 bytes of
// what that descriptor names.
//
// whole_heap.dxbc was made of this, for shader model 5.1 so that every runtime takes it, by
// `fxc /T cs_5_1 /E main /O3 /enable_unbounded_descriptor_tables /Fo whole_heap.dxbc whole_heap.hlsl`.

// All of the shader-visible heap.
ByteAddressBuffer heap[] : register(t0, space0);
ByteAddressBuffer indices : register(t0, space1);
RWByteAddressBuffer to : register(u0);

cbuffer Constants : register(b0)
{
    uint count;
};

[numthreads(64, 1, 1)]
void main(uint3 thread : SV_DispatchThreadID)
{
    if (thread.x < count)
    {
        uint index = indices.Load(4 * thread.x);
        to.Store(4 * thread.x, heap[NonUniformResourceIndex(index)].Load(0));
    }
}
