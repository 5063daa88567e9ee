import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogEntry } from "../api/types.ts";
import { logLines } from "./log-lines.ts";

const log = (...texts: string[]) =>
  logLines(texts.map((text, seq) => ({ seq, stream: "stderr", text }) as LogEntry));

test("a line that is spread over several entries is one line", () => {
  assert.deepEqual(log("epoch 1: ", "loss 0.5\nepoch 2", "\n").map((line) => line.text), ["epoch 1: loss 0.5\n", "epoch 2\n"]);
});

test("lines of different streams are not joined", () => {
  const entries = [{ seq: 1, stream: "stdout", text: "a" }, { seq: 2, stream: "stderr", text: "b" }, { seq: 3, stream: "stdout", text: "c\n" }];
  assert.deepEqual(logLines(entries as LogEntry[]).map((line) => line.text), ["ac\n", "b"]);
});

test("what TensorFlow prints whenever it starts is recognised", () => {
  const lines = log(
    "2026-01-05 12:00:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized…\n",
    "To enable the following instructions: AVX2 AVX512F, rebuild TensorFlow with the appropriate compiler flags.\n",
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    "I0000 00:00:1763872980.123456    4242 service.cc:148] XLA service 0x7f initialized for platform Host\n",
    "E0000 00:00:1763872980.123456    4242 cuda_dnn.cc:8579] Unable to register cuDNN factory: …\n",
  );
  assert.deepEqual(lines.map((line) => line.isStartup), [true, true, true, true, true]);
});

test("warnings, errors and a program's own output stay", () => {
  const lines = log(
    "2026-01-05 12:00:00.123456: W tensorflow/core/framework/op_kernel.cc:1857] OP_REQUIRES failed\n",
    "I am a line of the training program\n",
    "E0000 00:00:1763872980.123456    4242 gpu.cc:1] CUDA_ERROR_OUT_OF_MEMORY\n",
  );
  assert.deepEqual(lines.map((line) => line.isStartup), [false, false, false]);
});
