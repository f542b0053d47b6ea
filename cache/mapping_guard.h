// Reading a mapped file that may fail or go bad under the reader: what would end the process ends the reading instead.
//
// A page that the disk cannot give, or that was cut off, is SIGBUS; LMDB on a page that has gone bad may read anywhere
// (SIGSEGV) or meet one of its own assertions. Within RunGuarded all three give up what was going on and return.
// Elsewhere SIGBUS and SIGSEGV do what they did before.
//
// Thread safety: from any number of threads; each guards itself. The handlers are the process's: InstallMappingGuard
// puts them in place, once, and remembers those before.
#ifndef PCRFS_CACHE_MAPPING_GUARD_H_
#define PCRFS_CACHE_MAPPING_GUARD_H_

namespace pcrfs {

void InstallMappingGuard();

// Calls `body(argument)`. False when it was given up: it is left without unwinding, so it must own nothing, neither
// memory nor locks, and change only what its caller then drops.
[[nodiscard]] bool RunGuarded(void (*body)(void* argument), void* argument);

// The same of anything that can be called.
template <typename Body>
[[nodiscard]] bool Guarded(Body body) {
  return RunGuarded([](void* argument) { (*static_cast<Body*>(argument))(); }, &body);
}

// What LMDB's assertions are to call: does not return where this thread is guarded.
void GiveUpGuarded();

}  // namespace pcrfs

#endif  // PCRFS_CACHE_MAPPING_GUARD_H_
