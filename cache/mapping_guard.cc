#include "cache/mapping_guard.h"

#include <pthread.h>
#include <ucontext.h>

#include <csetjmp>
#include <csignal>
#include <mutex>

namespace pcrfs {
namespace {

// Where this thread goes on when it gives up; null outside RunGuarded.
thread_local sigjmp_buf* volatile escape = nullptr;

struct sigaction before_bus, before_segv;

void OnFault(int signal, siginfo_t* info, void* context) {
  // The handler is left by a jump, so what was blocked for it is let through again here.
  if (escape != nullptr) pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
  GiveUpGuarded();
  // Somebody else's fault: it happens again when this returns, as if we had never been here; one that a process sent
  // has to be sent again.
  sigaction(signal, signal == SIGBUS ? &before_bus : &before_segv, nullptr);
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

void InstallMappingGuard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction handler {};
    handler.sa_sigaction = OnFault;
    handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGBUS, &handler, &before_bus);
    sigaction(SIGSEGV, &handler, &before_segv);
  });
}

bool RunGuarded(void (*body)(void*), void* argument) {
  sigjmp_buf here;
  sigjmp_buf* const outer = escape;
  if (sigsetjmp(here, 0) != 0) {
    escape = outer;
    return false;
  }
  escape = &here;
  body(argument);
  escape = outer;
  return true;
}

void GiveUpGuarded() {
  if (escape != nullptr) siglongjmp(*escape, 1);
}

}  // namespace pcrfs
