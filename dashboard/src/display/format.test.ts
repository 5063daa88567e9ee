import assert from "node:assert/strict";
import { test } from "node:test";
import { age, bytes, duration, number, percent, power, lossScale, scaleHealth } from "./format.ts";

test("numbers keep four significant digits, and integers all digits", () => {
  assert.equal(number(0.0123456), "0.01235");
  assert.equal(number(123456), "123,456");
  assert.equal(number(1.23456e-7), "1.235e−7");
  assert.equal(number(0), "0");
  assert.equal(number("NaN"), "NaN");
  assert.equal(number("-Infinity"), "−∞");
  assert.equal(number(null), "–");
});

test("a small share never reads 0 %, and a large one never 100 %", () => {
  assert.equal(percent(0), "0 %");
  assert.equal(percent(0.00001), "< 0.01 %");
  assert.equal(percent(0.0312), "3.12 %");
  assert.equal(percent(0.9999), "> 99.9 %");
  assert.equal(percent(1), "100 %");
  assert.equal(percent(0.103), "10.3 %");
  assert.equal(percent(0.1035), "10.3 %"); // 10.35 is 10.3499… in binary, and 10.3 % in Python
});

test("the health of a loss scale is a text", () => {
  assert.equal(scaleHealth("pinned at the floor"), "at minimum scale");
  assert.equal(scaleHealth("steady"), "steady");
  assert.equal(scaleHealth(null), "");
});

test("a loss scale that is a power of two is shown as one", () => {
  assert.equal(lossScale(32768), "2¹⁵");
  assert.equal(lossScale(0.5), "2⁻¹");
  assert.equal(lossScale(1000), "1,000");
  assert.equal(lossScale(1.0995116e12), "2⁴⁰");
  assert.equal(power(-96), "2⁻⁹⁶");
});

test("durations use the two units that matter", () => {
  assert.equal(duration(0.0042), "4.2 ms");
  assert.equal(duration(4.23), "4.2 s");
  assert.equal(duration(65), "1 min 05 s");
  assert.equal(duration(3840), "1 h 04 min");
  assert.equal(duration(183_600), "2 d 3 h");
});

test("ages and sizes are short", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  assert.equal(age("2026-01-01T23:59:18Z", now), "42 s");
  assert.equal(age("2026-01-01T00:00:00Z", now), "24 h");
  assert.equal(bytes(1536), "1.5 KiB");
  assert.equal(bytes(512), "512 B");
});
