#include "backend/profile.h"

#include <doctest/doctest.h>

#include <thread>

#include "backend/profile_scope.h"
#include "backend/stream.h"

using caption::Profile;
using caption::ProfileScope;
using std::chrono::nanoseconds;

TEST_SUITE_BEGIN("backend/profile");

TEST_CASE("adds up calls and time of each operation and matrix, in the order of their first call") {
  Profile profile;
  profile.add({"linear", 8, 4}, nanoseconds(30));
  profile.add({"rope"}, nanoseconds(5));
  profile.add({"linear", 8, 4}, nanoseconds(10));
  profile.add({"linear", 4, 8}, nanoseconds(1));
  REQUIRE(profile.entries().size() == 3);
  CHECK(profile.entries()[0].key == caption::ProfileKey{"linear", 8, 4});
  CHECK(profile.entries()[0].calls == 2);
  CHECK(profile.entries()[0].time == nanoseconds(40));
  CHECK(profile.entries()[1].key.operation == "rope");
  CHECK(profile.entries()[2].time == nanoseconds(1));
  CHECK(profile.total_seconds() == doctest::Approx(46e-9));
  profile.clear();
  CHECK(profile.entries().empty());
}

TEST_CASE("times between events are read in their order, with those before them") {
  caption::ThreadPool pool(1);
  const caption::Stream stream(pool, caption::CpuTier::kReference);
  const caption::Event begin = stream.record();
  const caption::Event end = stream.record();
  Profile profile;
  constexpr int kCalls = 5000;  // more than a profile keeps unread
  for (int i = 0; i < kCalls; ++i) profile.add({"norm"}, begin, end);
  profile.add({"rope"}, nanoseconds(5));
  profile.add({"linear", 8, 4}, begin, end);
  REQUIRE(profile.entries().size() == 3);
  CHECK(profile.entries()[0].key.operation == "norm");
  CHECK(profile.entries()[0].calls == kCalls);
  CHECK(profile.entries()[0].time == kCalls * end.since(begin));
  CHECK(profile.entries()[2].key == caption::ProfileKey{"linear", 8, 4});
  profile.add({"swiglu"}, begin, end);
  profile.clear();
  CHECK(profile.entries().empty());
}

TEST_CASE("a scope counts once, with what it was told last, and at least the time it lived") {
  caption::ThreadPool pool(1);
  caption::Stream stream(pool, caption::CpuTier::kReference);
  Profile profile;
  stream.set_profile(&profile);
  {
    ProfileScope scope(stream, "linear");
    scope.set_matrix(3, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  REQUIRE(profile.entries().size() == 1);
  CHECK(profile.entries()[0].key == caption::ProfileKey{"linear", 3, 2});
  CHECK(profile.entries()[0].calls == 1);
  CHECK(profile.entries()[0].time >= std::chrono::milliseconds(2));
}

TEST_CASE("the time between two events of a stream is that of the work between them") {
  caption::ThreadPool pool(1);
  const caption::Stream stream(pool, caption::CpuTier::kReference);
  const caption::Event first = stream.record();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const caption::Event second = stream.record();
  CHECK(second.since(first) >= std::chrono::milliseconds(2));
  CHECK(first.since(first) == nanoseconds(0));
}

TEST_CASE("a stream has none until it is given one") {
  caption::ThreadPool pool(1);
  caption::Stream stream(pool, caption::CpuTier::kReference);
  CHECK(stream.profile() == nullptr);
  { const ProfileScope scope(stream, "nothing"); }
  Profile profile;
  stream.set_profile(&profile);
  { const ProfileScope scope(stream, "something"); }
  stream.set_profile(nullptr);
  { const ProfileScope scope(stream, "nothing"); }
  REQUIRE(profile.entries().size() == 1);
  CHECK(profile.entries()[0].key.operation == "something");
}

TEST_SUITE_END();
