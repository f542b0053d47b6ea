#include "mount/logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <syslog.h>

#include <algorithm>
#include <atomic>
#include <memory>

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

void FaultLog::Report(std::string_view message, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto refills = (now - refilled_) / kRefill;
  if (refills > 0) {
    credit_ = static_cast<int>(std::min<int64_t>(kBurst, credit_ + std::min<int64_t>(refills, kBurst)));
    refilled_ = now;
  }
  if (credit_ == 0) {
    ++held_back_;
    return;
  }
  --credit_;
  if (held_back_ > 0) sink_(std::to_string(held_back_) + " more errors were not logged one by one");
  held_back_ = 0;
  sink_(message);
}

}  // namespace pcrfs
