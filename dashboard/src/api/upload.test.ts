import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "./request.ts";
import { datasetNameOf, PIECE_BYTES, uploadFile, type Requests, type Source } from "./upload.ts";
import type { DatasetVersion, Upload } from "./types.ts";

const SIZE = 2 * PIECE_BYTES + 10;
const FILE: Source = { name: "b.npz", size: SIZE, slice: (start, end) => ({ size: end - start }) as Blob };
const VERSION = { number: 1 } as DatasetVersion;

function fakeServer(failures: Record<number, ApiError> = {}, lostResponses: number[] = []) {
  const log: string[] = [];
  let stored = 0;
  let tries = 0;
  const requests: Requests = {
    start: async (file, size) => (log.push(`start ${file} ${size}`), { id: "u", offset: 0 } as Upload),
    offset: async () => stored,
    append: async (_, offset, piece) => {
      tries += 1;
      if (failures[tries]) throw failures[tries];
      if (offset !== stored) throw new ApiError("another offset", 409, "conflict");
      stored = offset + piece.size;
      if (lostResponses.includes(tries)) throw new ApiError("lost", 0, "unreachable");
      return stored;
    },
    complete: async () => (log.push(`complete ${stored}`), VERSION),
    remove: async () => void log.push("remove"),
    wait: async () => undefined,
  };
  return { requests, log };
}

test("a file is sent in pieces and then completed", async () => {
  const { requests, log } = fakeServer();
  const seen: number[] = [];
  assert.equal(await uploadFile(FILE, requests, (sent) => seen.push(sent)), VERSION);
  assert.deepEqual(log, [`start b.npz ${SIZE}`, `complete ${SIZE}`]);
  assert.deepEqual(seen, [0, PIECE_BYTES, 2 * PIECE_BYTES, SIZE]);
});

test("a broken piece is sent again, and one that only lost its response is not", async () => {
  const { requests, log } = fakeServer({ 1: new ApiError("", 0, "unreachable"), 4: new ApiError("", 503, "x") }, [2]);
  await uploadFile(FILE, requests, () => undefined);
  assert.equal(log.at(-1), `complete ${SIZE}`);
});

test("an error that a repeat does not change ends the upload and deletes it", async () => {
  const { requests, log } = fakeServer({ 2: new ApiError("too large", 413, "payload_too_large") });
  await assert.rejects(uploadFile(FILE, requests, () => undefined), /too large/);
  assert.equal(log.at(-1), "remove");
});

test("after several failures in a row the upload ends", async () => {
  const down = new ApiError("down", 503, "unavailable");
  const { requests, log } = fakeServer({ 1: down, 2: down, 3: down, 4: down, 5: down, 6: down });
  await assert.rejects(uploadFile(FILE, requests, () => undefined), /down/);
  assert.equal(log.at(-1), "remove");
});

test("an empty file is completed at once", async () => {
  const { requests, log } = fakeServer();
  await uploadFile({ ...FILE, size: 0 }, requests, () => undefined);
  assert.deepEqual(log, ["start b.npz 0", "complete 0"]);
});

test("a dataset is named after its file", () => {
  assert.equal(datasetNameOf("Birds of prey.npz"), "birds-of-prey");
  assert.equal(datasetNameOf("mnist"), "mnist");
  assert.equal(datasetNameOf(".npz"), "npz");
  assert.equal(datasetNameOf("数据.csv"), "");
});
