import assert from "node:assert/strict";
import { test, mock } from "node:test";
import { JobStream, type Source } from "./job-stream.ts";
import { ApiError } from "./request.ts";
import type { Job } from "./types.ts";

class FakeSource implements Source {
  readyState = 1;
  readonly url: string;
  private readonly listeners = new Map<string, (event: { data?: string }) => void>();
  constructor(url: string) {
    this.url = url;
  }
  addEventListener(name: string, listener: (event: { data?: string }) => void): void {
    this.listeners.set(name, listener);
  }
  send(name: string, data?: unknown): void {
    this.listeners.get(name)!(data === undefined ? {} : { data: JSON.stringify(data) });
  }
  close(): void {
    this.readyState = 2;
  }
}

function following(read: () => Promise<Job> = async () => ({ seq: 7 }) as Job) {
  const sources: FakeSource[] = [];
  const seen: unknown[] = [];
  const stream = new JobStream("a b", ["steps", "events"], "loss", {
    steps: (event) => seen.push(event.first_step),
    entry: () => seen.push("entry"),
    open: (isOpen) => seen.push(isOpen),
  }, (url) => sources[sources.push(new FakeSource(url)) - 1]!, read);
  return { stream, sources, seen };
}

test("a job is followed from its present state on", async () => {
  const { stream, sources, seen } = following();
  await stream.open();
  assert.equal(sources[0]!.url, "/api/v1/jobs/a%20b/stream?after=7&kinds=steps&kinds=events&columns=loss");
  sources[0]!.send("open");
  sources[0]!.send("steps", { first_step: 3 });
  for (const name of ["event", "state", "log"]) sources[0]!.send(name, {});
  assert.deepEqual(seen, [true, 3, "entry", "entry", "entry"]);
  stream.close();
  assert.equal(sources[0]!.readyState, 2);
  assert.equal(seen.at(-1), false);
});

test("a stream that has ended is closed, so that the browser does not open it again", async () => {
  const { stream, sources, seen } = following();
  await stream.open();
  sources[0]!.send("end", { state: "succeeded" });
  assert.equal(sources[0]!.readyState, 2);
  assert.deepEqual(seen, ["entry", false]);
});

test("a lost connection is left to the browser, and a refused one is tried again later", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { stream, sources, seen } = following();
  await stream.open();
  sources[0]!.send("open");
  sources[0]!.readyState = 0;
  sources[0]!.send("error");
  assert.equal(seen.at(-1), false);
  mock.timers.tick(60_000);
  await Promise.resolve();
  assert.equal(sources.length, 1);
  sources[0]!.readyState = 2;
  sources[0]!.send("error");
  mock.timers.tick(60_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(sources.length, 2);
  stream.close();
  mock.timers.reset();
});

test("a stream that is closed while the job is read does not open", async () => {
  const { stream, sources } = following();
  const opening = stream.open();
  stream.close();
  await opening;
  assert.deepEqual(sources, []);
});

test("without a server the stream is tried again later", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let isAway = true;
  const { stream, sources } = following(async () => {
    if (isAway) throw new ApiError("The server is not responding.", 0, "unreachable");
    return { seq: 1 } as Job;
  });
  await stream.open();
  isAway = false;
  mock.timers.tick(60_000);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(sources.length, 1);
  stream.close();
  mock.timers.reset();
});
