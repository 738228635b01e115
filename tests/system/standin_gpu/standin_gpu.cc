// A stand-in GPU for tests: TensorFlow's PluggableDevice C API, over host memory.
//
// Device type GPU, TensorFlow's own BFC allocator, and float32 kernels for what the loop scenarios
// do; everything else falls back to the CPU. What is like a card:
//
//   - Its memory is not the process's own: it counts as shared memory, not as anonymous or data.
//   - It runs behind: STANDIN_GPU_KERNEL_US is how long a kernel seems to run after its call has
//     returned, and whoever synchronises, or wants a result on the host, waits for that.
//   - memory_limit of tf.config.set_logical_device_configuration is a hard limit.
//
// What is not: a kernel computes at once, in the thread that calls it, because TensorFlow's kernels
// for any device touch this memory directly; there is no XLA compiler, no profiler and no NVML; and
// an op that takes a variable of the card and has no kernel here (tf.random.Generator) can't fall
// back.
//
//   STANDIN_GPU_COUNT       cards                        1
//   STANDIN_GPU_MEMORY_MB   memory of each, in MiB       1024
//   STANDIN_GPU_KERNEL_US   how long a kernel runs       0
//
// They are read where TensorFlow first asks: the number of cards when it is imported.

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/kernels.h"

// A little of Python's C API, declared here so that its headers need not be installed.
extern "C" {
int PyGILState_Ensure();
void PyGILState_Release(int);
void* PyImport_AddModule(const char*);
void* PyModule_GetDict(void*);
void* PyRun_String(const char*, int, void*, void*);
long long PyLong_AsLongLong(void*);
void PyErr_Print();
}

namespace {

using Clock = std::chrono::steady_clock;

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

// One card. All its streams are one queue, of which only the end is kept.
class Card {
 public:
  int64_t total = setting("STANDIN_GPU_MEMORY_MB", 1024) << 20;
  std::atomic<int64_t> used{0};

  void run_kernel() {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_at_ = std::max(idle_at_, Clock::now()) + kernel_;
  }
  Clock::time_point idle_at() {
    std::lock_guard<std::mutex> lock(mutex_);
    return idle_at_;
  }
  void wait() { std::this_thread::sleep_until(idle_at()); }

 private:
  const std::chrono::microseconds kernel_{setting("STANDIN_GPU_KERNEL_US", 0)};
  std::mutex mutex_;
  Clock::time_point idle_at_{};
};

Card& card(const SP_Device* device) { return *static_cast<Card*>(device->device_handle); }

}  // namespace

struct SP_Stream_st {
  Card& card;
};
struct SP_Event_st {
  Clock::time_point reached_at;
};

namespace {

// ---- Memory -------------------------------------------------------------------------------------

void allocate(const SP_Device* device, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
  memory->opaque = nullptr;
  memory->size = 0;
  if (card(device).used.fetch_add(size) + static_cast<int64_t>(size) <= card(device).total) {
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) {
      memory->opaque = at;
      memory->size = size;
      return;
    }
  }
  card(device).used -= size;
}

void deallocate(const SP_Device* device, SP_DeviceMemoryBase* memory) {
  if (!memory->opaque) return;
  munmap(memory->opaque, memory->size);
  card(device).used -= memory->size;
}

// A CUDA device obeys the memory_limit that tf.config was given; of a PluggableDevice TensorFlow
// ignores it. So the stand-in asks for it, and is a card of that size.
int64_t memory_limit_mb(int index) {
  std::string question =
      "next((logical[0].memory_limit for tf in [__import__('tensorflow')]"
      " for gpu in tf.config.list_physical_devices('GPU')[" + std::to_string(index) + ":][:1]"
      " for logical in [tf.config.get_logical_device_configuration(gpu)] if logical), 0)";
  const int kEvaluate = 258;  // Py_eval_input
  int lock = PyGILState_Ensure();
  void* names = PyModule_GetDict(PyImport_AddModule("__main__"));
  void* answer = PyRun_String(question.c_str(), kEvaluate, names, names);
  if (!answer) PyErr_Print();
  int64_t limit = answer ? PyLong_AsLongLong(answer) : 0;
  PyGILState_Release(lock);
  return limit;
}

// Asked when TensorFlow makes the device. It leaves 255 MiB of what is free to the system; the
// stand-in has no use for them, so it adds them.
TF_Bool memory_usage(const SP_Device* device, int64_t* free, int64_t* total) {
  const int64_t kLeftToSystem = 255 << 20;
  if (int64_t limit = memory_limit_mb(device->ordinal)) card(device).total = limit << 20;
  *total = card(device).total + kLeftToSystem;
  *free = *total - card(device).used;
  return true;
}

// ---- What TensorFlow asks of a device -----------------------------------------------------------

void fill_stream_executor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status*) {
  SP_StreamExecutor& se = *params->stream_executor;
  se.struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;

  se.allocate = allocate;
  se.deallocate = deallocate;
  se.device_memory_usage = memory_usage;
  se.get_allocator_stats = [](auto, auto) -> TF_Bool { return false; };
  se.host_memory_allocate = [](auto, uint64_t size) {
    return std::aligned_alloc(64, (size + 63) / 64 * 64);
  };
  se.host_memory_deallocate = [](auto, void* memory) { std::free(memory); };

  se.create_stream = [](auto device, SP_Stream* stream, auto) {
    *stream = new SP_Stream_st{card(device)};
  };
  se.destroy_stream = [](auto, SP_Stream stream) { delete stream; };
  se.get_stream_status = [](auto, auto, auto) {};
  se.create_stream_dependency = [](auto, auto, auto, auto) {};  // one queue: always in order
  se.wait_for_event = [](auto, auto, auto, auto) {};

  se.create_event = [](auto, SP_Event* event, auto) { *event = new SP_Event_st{}; };
  se.destroy_event = [](auto, SP_Event event) { delete event; };
  se.record_event = [](auto, SP_Stream stream, SP_Event event, auto) {
    event->reached_at = stream->card.idle_at();
  };
  se.get_event_status = [](auto, SP_Event event) {
    return Clock::now() < event->reached_at ? SE_EVENT_PENDING : SE_EVENT_COMPLETE;
  };
  se.block_host_for_event = [](auto, SP_Event event, auto) {
    std::this_thread::sleep_until(event->reached_at);
  };
  se.block_host_until_done = [](auto, SP_Stream stream, auto) { stream->card.wait(); };
  se.synchronize_all_activity = [](auto device, auto) { card(device).wait(); };

  se.memcpy_dtoh = [](auto, SP_Stream stream, void* to, auto from, uint64_t size, auto) {
    stream->card.wait();
    std::memcpy(to, from->opaque, size);
  };
  se.memcpy_htod = [](auto, auto, auto to, const void* from, uint64_t size, auto) {
    std::memcpy(to->opaque, from, size);
  };
  se.memcpy_dtod = [](auto, auto, auto to, auto from, uint64_t size, auto) {
    std::memcpy(to->opaque, from->opaque, size);
  };
  se.sync_memcpy_dtoh = [](auto device, void* to, auto from, uint64_t size, auto) {
    card(device).wait();
    std::memcpy(to, from->opaque, size);
  };
  se.sync_memcpy_htod = [](auto, auto to, const void* from, uint64_t size, auto) {
    std::memcpy(to->opaque, from, size);
  };

  se.mem_zero = [](auto, auto, auto at, uint64_t size, auto) { std::memset(at->opaque, 0, size); };
  se.memset = [](auto, auto, auto at, uint8_t value, uint64_t size, auto) {
    std::memset(at->opaque, value, size);
  };
  se.memset32 = [](auto, auto, auto at, uint32_t value, uint64_t size, auto) {
    std::fill_n(static_cast<uint32_t*>(at->opaque), size / 4, value);
  };

  // Demanded, and never used here.
  se.host_callback = [](auto, auto, auto, auto) -> TF_Bool { return false; };
  se.create_timer = [](auto, auto, auto) {};
  se.destroy_timer = [](auto, auto) {};
  se.start_timer = [](auto, auto, auto, auto) {};
  se.stop_timer = [](auto, auto, auto, auto) {};
}

// ---- Kernels ------------------------------------------------------------------------------------

using Shape = std::vector<int64_t>;

// An input or output of a kernel; given back when it goes out of scope.
struct Tensor {
  TF_Tensor* handle = nullptr;

  ~Tensor() {
    if (handle) TF_DeleteTensor(handle);
  }
  Shape shape() const {
    Shape shape(TF_NumDims(handle));
    for (size_t i = 0; i < shape.size(); ++i) shape[i] = TF_Dim(handle, i);
    return shape;
  }
  int64_t count() const { return TF_TensorElementCount(handle); }
  float* begin() const { return static_cast<float*>(TF_TensorData(handle)); }
  float* end() const { return begin() + count(); }
};

// One call of a kernel: what TensorFlow hands in and takes back. The first error ends it.
class Call {
 public:
  explicit Call(TF_OpKernelContext* context) : context_(context) {}
  ~Call() {
    if (!ok()) TF_OpKernelContext_Failure(context_, status_);
    TF_DeleteStatus(status_);
  }

  int inputs() const { return TF_NumInputs(context_); }
  void refuse(const char* why) { TF_SetStatus(status_, TF_INVALID_ARGUMENT, why); }

  bool input(int index, Tensor& tensor) {
    TF_GetInput(context_, index, &tensor.handle, status_);
    return ok();
  }
  bool output(const Shape& shape, Tensor& tensor) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    tensor.handle = TF_AllocateOutput(context_, 0, TF_FLOAT, shape.data(), shape.size(),
                                      count * sizeof(float), status_);
    if (!ok() || !stream()) return false;
    stream()->card.run_kernel();
    return true;
  }
  SP_Stream stream() {
    SP_Stream stream = TF_GetStream(context_, status_);
    return ok() ? stream : nullptr;
  }

 private:
  bool ok() const { return TF_GetCode(status_) == TF_OK; }

  TF_OpKernelContext* context_;
  TF_Status* status_ = TF_NewStatus();
};

// Without this TensorFlow's own one runs, which waits for nothing.
struct SyncDevice {
  explicit SyncDevice(TF_OpKernelConstruction*) {}

  void compute(Call& call) const {
    if (SP_Stream stream = call.stream()) stream->card.wait();
  }
};

struct MatMul {
  TF_Bool turn_a = false, turn_b = false;

  explicit MatMul(TF_OpKernelConstruction* construction) {
    TF_Status* status = TF_NewStatus();
    TF_OpKernelConstruction_GetAttrBool(construction, "transpose_a", &turn_a, status);
    TF_OpKernelConstruction_GetAttrBool(construction, "transpose_b", &turn_b, status);
    TF_DeleteStatus(status);
  }

  void compute(Call& call) const {
    Tensor a, b, product;
    if (!call.input(0, a) || !call.input(1, b)) return;
    Shape of_a = a.shape(), of_b = b.shape();
    if (of_a.size() != 2 || of_b.size() != 2) return call.refuse("MatMul: not a matrix");
    if (turn_a) std::swap(of_a[0], of_a[1]);
    if (turn_b) std::swap(of_b[0], of_b[1]);
    if (of_a[1] != of_b[0]) return call.refuse("MatMul: the sizes do not match");
    if (!call.output({of_a[0], of_b[1]}, product)) return;

    std::vector<float> turned_a, turned_b;
    const float* left = turn_a ? turned(a, of_a, turned_a) : a.begin();
    const float* right = turn_b ? turned(b, of_b, turned_b) : b.begin();
    std::fill(product.begin(), product.end(), 0.0f);
    const int64_t inner = of_a[1], columns = of_b[1];
    for (int64_t i = 0; i < of_a[0]; ++i) {
      float* __restrict row = product.begin() + i * columns;
      for (int64_t k = 0; k < inner; ++k) {
        const float scale = left[i * inner + k];
        for (int64_t j = 0; j < columns; ++j) row[j] += scale * right[k * columns + j];
      }
    }
  }

  static const float* turned(const Tensor& tensor, const Shape& shape, std::vector<float>& into) {
    const int64_t rows = shape[0], columns = shape[1];
    const float* from = tensor.begin();
    into.resize(rows * columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) into[i * columns + j] = from[j * rows + i];
    return into.data();
  }
};

// f of each pair of elements, where a dimension of 1 is repeated.
template <float (*f)(float, float)>
struct Binary {
  explicit Binary(TF_OpKernelConstruction*) {}

  void compute(Call& call) const {
    Tensor x, y, result;
    if (!call.input(0, x) || !call.input(1, y)) return;
    Shape of_x = x.shape(), of_y = y.shape();
    const size_t rank = std::max(of_x.size(), of_y.size());
    of_x.insert(of_x.begin(), rank - of_x.size(), 1);
    of_y.insert(of_y.begin(), rank - of_y.size(), 1);
    Shape shape(rank);
    for (size_t d = 0; d < rank; ++d) {
      if (of_x[d] != of_y[d] && of_x[d] != 1 && of_y[d] != 1)
        return call.refuse("the shapes do not match");
      shape[d] = of_x[d] == 1 ? of_y[d] : of_x[d];
    }
    if (!call.output(shape, result)) return;
    const float *left = x.begin(), *right = y.begin();
    float* into = result.begin();
    for (int64_t i = 0, count = result.count(); i < count; ++i)
      into[i] = f(left[place(i, shape, of_x)], right[place(i, shape, of_y)]);
  }

  // Where in a tensor shaped `of` the element is that stands at `index` once it is repeated.
  static int64_t place(int64_t index, const Shape& shape, const Shape& of) {
    if (shape == of) return index;
    int64_t at = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0; index /= shape[d]) {
      if (of[d] != 1) at += index % shape[d] * stride;
      stride *= of[d];
    }
    return at;
  }
};

template <float (*f)(float)>
struct Unary {
  explicit Unary(TF_OpKernelConstruction*) {}

  void compute(Call& call) const {
    Tensor x, result;
    if (!call.input(0, x) || !call.output(x.shape(), result)) return;
    std::transform(x.begin(), x.end(), result.begin(), f);
  }
};

struct Fill {
  explicit Fill(TF_OpKernelConstruction*) {}

  void compute(Call& call) const {
    Tensor sizes, value, result;
    if (!call.input(0, sizes) || !call.input(1, value)) return;
    auto* size = static_cast<const int32_t*>(TF_TensorData(sizes.handle));
    if (!call.output(Shape(size, size + sizes.count()), result)) return;
    std::fill(result.begin(), result.end(), *value.begin());
  }
};

float add(float x, float y) { return x + y; }
float subtract(float x, float y) { return x - y; }
float multiply(float x, float y) { return x * y; }
float negate(float x) { return -x; }
float square(float x) { return x * x; }
float zero(float) { return 0.0f; }
float one(float) { return 1.0f; }

struct AddN {
  explicit AddN(TF_OpKernelConstruction*) {}

  void compute(Call& call) const {
    Tensor first, sum;
    if (!call.input(0, first) || !call.output(first.shape(), sum)) return;
    std::copy(first.begin(), first.end(), sum.begin());
    for (int i = 1; i < call.inputs(); ++i) {
      Tensor next;
      if (!call.input(i, next)) return;
      std::transform(next.begin(), next.end(), sum.begin(), sum.begin(), add);
    }
  }
};

using Types = std::vector<std::pair<const char*, TF_DataType>>;

template <typename Kernel>
void offer(const char* op, const Types& types = {{"T", TF_FLOAT}}, const char* on_host = nullptr) {
  TF_KernelBuilder* builder = TF_NewKernelBuilder(
      op, "GPU",
      [](TF_OpKernelConstruction* construction) -> void* { return new Kernel(construction); },
      [](void* kernel, TF_OpKernelContext* context) {
        Call call(context);
        static_cast<Kernel*>(kernel)->compute(call);
      },
      [](void* kernel) { delete static_cast<Kernel*>(kernel); });
  TF_Status* status = TF_NewStatus();
  for (auto [attribute, type] : types)
    TF_KernelBuilder_TypeConstraint(builder, attribute, type, status);
  if (on_host) TF_KernelBuilder_HostMemory(builder, on_host);
  TF_RegisterKernelBuilder(op, builder, status);
  TF_DeleteStatus(status);
}

}  // namespace

// ---- What TensorFlow calls when it loads the library --------------------------------------------

extern "C" void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status*) {
  params->destroy_platform = [](auto) {};
  params->destroy_platform_fns = [](auto) {};

  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "STANDIN";
  params->platform->type = "GPU";
  params->platform->use_bfc_allocator = true;

  SP_PlatformFns& platform = *params->platform_fns;
  platform.struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  platform.get_device_count = [](auto, int* count, auto) {
    *count = static_cast<int>(setting("STANDIN_GPU_COUNT", 1));
  };
  platform.create_device = [](auto, SE_CreateDeviceParams* params, auto) {
    params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
    params->device->device_handle = new Card;
    params->device->ordinal = params->ordinal;
  };
  platform.destroy_device = [](auto, SP_Device* device) { delete &card(device); };
  platform.create_stream_executor = fill_stream_executor;
  platform.destroy_stream_executor = [](auto, auto) {};
  platform.create_device_fns = [](auto, auto, auto) {};
  platform.destroy_device_fns = [](auto, auto) {};
  platform.create_timer_fns = [](auto, SP_TimerFns* timer, auto) {
    timer->nanoseconds = [](auto) -> uint64_t { return 0; };
  };
  platform.destroy_timer_fns = [](auto, auto) {};
}

extern "C" void TF_InitKernel() {
  offer<SyncDevice>("SyncDevice", {});
  offer<MatMul>("MatMul");
  offer<Binary<add>>("AddV2");
  offer<Binary<subtract>>("Sub");
  offer<Binary<multiply>>("Mul");
  offer<AddN>("AddN");
  offer<Unary<zero>>("ZerosLike");
  offer<Unary<one>>("OnesLike");
  offer<Fill>("Fill", {{"T", TF_FLOAT}, {"index_type", TF_INT32}}, "dims");
  // What Grappler makes of those above after they were placed, without asking whether it is there.
  offer<Binary<add>>("Add");
  offer<Unary<negate>>("Neg");
  offer<Unary<square>>("Square");
}
