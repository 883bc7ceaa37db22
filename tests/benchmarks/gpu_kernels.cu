// What lumijit's kernels are measured against: written by hand, as one would.
// `gpu_kernels.py` compiles and launches these.

extern "C" __global__ void saxpy(
    float a, const float *x, const float *y, float *out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaf(a, x[i], y[i]);
}

static __device__ unsigned escape(float cx, float cy, unsigned iterations) {
  float x = 0, y = 0;
  unsigned i = 0;
  while (fmaf(x, x, y * y) < 4 && i < iterations) {
    float next = fmaf(x, x, fmaf(-y, y, cx));
    y = fmaf(2 * x, y, cy);
    x = next;
    ++i;
  }
  return i;
}

// A warp takes 32 pixels of a row.
extern "C" __global__ void mandelbrot_rows(
    unsigned *out, unsigned side, unsigned iterations, float left, float top,
    float step) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= side * side) return;
  float cx = fmaf((float)(i % side), step, left);
  float cy = fmaf((float)(i / side), step, top);
  out[i] = escape(cx, cy, iterations);
}

// A warp takes 8 x 4 pixels, a block of 256 threads 32 x 8.
extern "C" __global__ void mandelbrot_tiles(
    unsigned *out, unsigned side, unsigned iterations, float left, float top,
    float step) {
  unsigned tiles = side / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned column = blockIdx.x % tiles * 32 + warp % 4 * 8 + lane % 8;
  unsigned row = blockIdx.x / tiles * 8 + warp / 4 * 4 + lane / 8;
  float cx = fmaf((float)column, step, left);
  float cy = fmaf((float)row, step, top);
  out[row * side + column] = escape(cx, cy, iterations);
}

extern "C" __global__ void bins_global(
    float *bins, const unsigned *index, const float *x, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(bins + index[i], x[i]);
}

// Each block has bins of its own, and adds them to those of all at the end.
extern "C" __global__ void bins_shared(
    float *bins, const unsigned *index, const float *x, unsigned n) {
  __shared__ float own[4096];
  for (unsigned k = threadIdx.x; k < 4096; k += blockDim.x) own[k] = 0;
  __syncthreads();
  unsigned stride = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
    atomicAdd(own + index[i], x[i]);
  __syncthreads();
  for (unsigned k = threadIdx.x; k < 4096; k += blockDim.x)
    if (own[k] != 0) atomicAdd(bins + k, own[k]);
}
