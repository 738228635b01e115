// A stand-in for NVIDIA's management library: two cards, of which the second offers no clocks. It is
// found in the place of libnvidia-ml.so.1 by LD_LIBRARY_PATH; nvidia-ml-py, which calls it, is the
// real one. STANDIN_NVML says what it knows of processes: all (by default), that there are none, as
// a driver outside of one's container does (hidden), or not how much they have taken (untold).

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace {

enum Return { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
constexpr unsigned long long MB = 1000 * 1000;
constexpr unsigned long long NOT_AVAILABLE = ~0ULL;

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned int pid;
  unsigned long long bytes;
  unsigned int gpu_instance, compute_instance;
};

int cards[2] = {0, 1};
int index_of(const void *card) { return *static_cast<const int *>(card); }
bool said(const char *what) {
  const char *value = std::getenv("STANDIN_NVML");
  return value && std::string(value) == what;
}
int clock_of(const void *card, int kind, unsigned int *mhz, unsigned int top) {
  if (index_of(card) == 1) return NOT_SUPPORTED;
  *mhz = top + static_cast<unsigned int>(kind);
  return SUCCESS;
}

}  // namespace

extern "C" {

int nvmlInitWithFlags(unsigned int) { return SUCCESS; }
int nvmlShutdown() { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Other"; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
  std::snprintf(text, length, "580.1.stand-in");
  return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned int *count) {
  *count = 2;
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **card) {
  *card = &cards[index];
  return SUCCESS;
}
int nvmlDeviceGetName(void *card, char *text, unsigned int length) {
  std::snprintf(text, length, "Stand-in %c", 'A' + index_of(card));
  return SUCCESS;
}
int nvmlDeviceGetUUID(void *card, char *text, unsigned int length) {
  std::snprintf(text, length, "GPU-%d", index_of(card));
  return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(void *, Memory *memory) {
  *memory = {8000 * MB, 7000 * MB, 1000 * MB};
  return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(void *, int *major, int *minor) {
  *major = 9, *minor = 0;
  return SUCCESS;
}
int nvmlDeviceGetClockInfo(void *card, int kind, unsigned int *mhz) {
  return clock_of(card, kind, mhz, 1000);
}
int nvmlDeviceGetMaxClockInfo(void *card, int kind, unsigned int *mhz) {
  return clock_of(card, kind, mhz, 2000);
}

// This process holds 300 MB of the first card and 400 MB of the second; another one 7 MB of each.
int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned int *count, Process *processes) {
  const unsigned int there = said("hidden") ? 0 : 2;
  const bool fits = *count >= there;
  *count = there;
  if (!fits) return INSUFFICIENT_SIZE;
  if (!there) return SUCCESS;
  const auto own = (300 + 100 * static_cast<unsigned long long>(index_of(card))) * MB;
  processes[0] = {1, 7 * MB, 0, 0};
  processes[1] = {static_cast<unsigned int>(getpid()), said("untold") ? NOT_AVAILABLE : own, 0, 0};
  return SUCCESS;
}

}
