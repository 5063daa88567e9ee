// Ask the API. Every failure is an ApiError, whose message a person can act on.
import type { Problem, ProblemDetail } from "./types.ts";

export const ROOT = "/api/v1";
const PATIENCE_MS = 30_000;

export class ApiError extends Error {
  readonly status: number; // 0: nobody answered
  readonly code: string;
  readonly errors: readonly ProblemDetail[];
  readonly retryAfterS: number;

  constructor(message: string, status: number, code: string, more?: Partial<ApiError>) {
    super(message);
    this.status = status;
    this.code = code;
    this.errors = more?.errors ?? [];
    this.retryAfterS = more?.retryAfterS ?? 0;
  }

  /** True where the server, or what is in front of it, is away for now. */
  get isOutage(): boolean {
    return this.status === 0 || [502, 503, 504].includes(this.status);
  }
}

export interface Answer<T> {
  body: T;
  etag: string | null;
}

export interface Question {
  method?: string;
  body?: unknown;
  etag?: string | null;
  key?: string;
  signal?: AbortSignal;
}

/** The answer; null: nothing has changed since the one with that etag. Throws ApiError. */
export async function ask<T>(path: string, question: Question = {}): Promise<Answer<T> | null> {
  const { response, text } = await sent(path, question);
  if (response.status === 304) return null;
  if (!response.ok) throw failure(response, text);
  return { body: bodyOf(response, text) as T, etag: response.headers.get("ETag") };
}

/** The body of the answer, read anew. Throws ApiError. */
export async function read<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask<T>(path, signal ? { signal } : {}))!.body;
}

/** Change something, and read what became of it. Throws ApiError. */
export async function send<T>(method: string, path: string, body?: unknown): Promise<T> {
  return (await ask<T>(path, { method, body, key: method === "POST" ? newKey() : "" }))!.body;
}

async function sent(path: string, { method = "GET", body, etag, key, signal }: Question) {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-None-Match"] = etag;
  if (key) headers["Idempotency-Key"] = key;
  const limit = AbortSignal.timeout(PATIENCE_MS);
  try {
    const response = await fetch(ROOT + path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      cache: "no-store", // the etag is ours to send: a 304 is then told as one
      credentials: "same-origin",
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    return { response, text: await response.text() };
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("The server does not answer.", 0, "unreachable");
  }
}

function bodyOf(response: Response, text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    throw new ApiError("The answer is not the API's.", response.status, "no_json");
  }
}

function failure(response: Response, text: string): ApiError {
  const problem = problemOf(text);
  const message = problem?.detail ?? `The server answered ${response.status}.`;
  return new ApiError(message, response.status, problem?.code ?? "unknown", {
    errors: problem?.errors ?? [],
    retryAfterS: Number(response.headers.get("Retry-After")) || 0,
  });
}

function problemOf(text: string): Problem | null {
  try {
    const problem = JSON.parse(text);
    return typeof problem?.detail === "string" ? problem : null;
  } catch {
    return null; // from a proxy
  }
}

/** A key of our own for a request that must not be carried out twice. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
