#include "mount/logging.h"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <syslog.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "format/file.h"
#include "mount/console.h"

namespace pcrfs {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

std::atomic<LogLevel> current_level{LogLevel::kInfo};

// Null before StartLogging and after StopLogging.
spdlog::logger* OurLogger() {
  spdlog::logger* logger = spdlog::default_logger_raw();
  return logger != nullptr && logger->name() == "pcrfs" ? logger : nullptr;
}

Result<spdlog::sink_ptr> MakeSink(const std::string& log_file, bool foreground) {
  if (log_file.empty() && foreground) return std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (log_file.empty()) return std::make_shared<spdlog::sinks::syslog_sink_mt>("pcrfs", LOG_PID, LOG_DAEMON, false);
  // It would make missing folders, too, and a mistyped path would log where nobody looks.
  const UniqueFd probe(open(log_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!probe.valid()) return SystemFail("cannot log to " + Quoted(log_file), errno);
  try {
    return std::make_shared<spdlog::sinks::basic_file_sink_mt>(log_file);
  } catch (const spdlog::spdlog_ex& error) {
    return Fail(ErrorCode::kIo, "cannot log to " + Quoted(log_file) + ": " + error.what());
  }
}

}  // namespace

Result<void> StartLogging(const std::string& log_file, LogLevel level, bool foreground) {
  auto sink = MakeSink(log_file, foreground);
  if (!sink) return PassOn(std::move(sink));
  // syslog adds time and name itself; on a terminal the name stands before each line as for any error.
  if (!log_file.empty())
    (*sink)->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %P %l %v");
  else
    (*sink)->set_pattern(foreground ? "pcrfs: %v" : "%v");
  auto logger = std::make_shared<spdlog::logger>("pcrfs", *std::move(sink));
  // Where the lines go is full or gone; the terminal, as long as there is one, is all that is left.
  logger->set_error_handler([](const std::string& why) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) Complain("the log cannot be written: " + why);
  });
  logger->flush_on(spdlog::level::debug);  // lines are few, and the last one before a crash matters most
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(level);
  return {};
}

void Log(LogLevel level, std::string_view message) {
  if (spdlog::logger* logger = OurLogger(); logger != nullptr)
    logger->log(SpdlogLevel(level), spdlog::string_view_t(message.data(), message.size()));
}

void SetLogLevel(LogLevel level) {
  if (spdlog::logger* logger = OurLogger(); logger != nullptr) logger->set_level(SpdlogLevel(level));
  current_level = level;
}

LogLevel CurrentLogLevel() { return current_level; }

void StopLogging() { spdlog::shutdown(); }

FaultLog::FaultLog(Sink sink, Clock::duration quiet)
    : sink_(std::move(sink)), quiet_(quiet), teller_([this] { TellWhenQuiet(); }) {}

FaultLog::~FaultLog() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  teller_.join();
  Tell();
}

// One shard with a thousand bad places must not keep silent of the others.
bool FaultLog::MayTell(std::optional<uint32_t> shard, Clock::time_point now) {
  if (now - named_since_ >= kNamedAgain) {
    named_.clear();
    named_since_ = now;
  }
  const bool names_another = shard && named_.size() < kNamed && named_.insert(*shard).second;
  const auto refills = (now - refilled_) / kRefill;
  if (refills > 0) {
    credit_ = static_cast<int>(std::min<int64_t>(kBurst, credit_ + std::min<int64_t>(refills, kBurst)));
    refilled_ = now;
  }
  if (names_another) return true;
  if (credit_ == 0) return false;
  --credit_;
  return true;
}

void FaultLog::Report(std::string_view message, std::optional<uint32_t> shard, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!MayTell(shard, now)) {
    if (held_back_++ == 0) changed_.notify_one();
    return;
  }
  Tell();
  sink_(message);
}

void FaultLog::Flush() {
  const std::lock_guard lock(mutex_);
  Tell();
}

void FaultLog::Tell() {
  if (held_back_ > 0)
    sink_(Counted(held_back_, "more error") + (held_back_ == 1 ? " was" : " were") + " not logged one by one");
  held_back_ = 0;
}

// Counted from the first that is held back: while more faults come, Report tells of them long before.
void FaultLog::TellWhenQuiet() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ended_ || held_back_ > 0; });
    if (ended_ || changed_.wait_for(lock, quiet_, [this] { return ended_; })) return;
    Tell();
  }
}

}  // namespace pcrfs
