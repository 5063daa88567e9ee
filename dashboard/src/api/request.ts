// Requests to the API. Every failure is an ApiError whose message says what to do.
import type { Problem, ProblemDetail } from "./types.ts";

export const API_ROOT = "/api/v1";
const REQUEST_TIMEOUT_MS = 30_000;

export class ApiError extends Error {
  readonly status: number; // 0: no response
  readonly code: string;
  readonly errors: readonly ProblemDetail[];
  readonly retryAfterS: number;

  constructor(message: string, status: number, code: string, details?: Partial<ApiError>) {
    super(message);
    this.status = status;
    this.code = code;
    this.errors = details?.errors ?? [];
    this.retryAfterS = details?.retryAfterS ?? 0;
  }

  /** True if the server, or the proxy before it, is unavailable for now. */
  get isOutage(): boolean {
    return this.status === 0 || [502, 503, 504].includes(this.status);
  }
}

export interface ApiResponse<T> {
  body: T;
  etag: string | null;
}

export interface RequestOptions {
  method?: string;
  body?: unknown;
  /** Bytes instead of a JSON `body`. */
  content?: Blob;
  headers?: Record<string, string>;
  timeoutMs?: number;
  etag?: string | null;
  key?: string;
  signal?: AbortSignal;
}

/** Returns null if nothing has changed since the response with `etag`. Throws ApiError. */
export async function fetchApi<T>(path: string, options: RequestOptions = {}): Promise<ApiResponse<T> | null> {
  const { response, text } = await fetchText(path, options);
  if (response.status === 304) return null;
  if (!response.ok) throw errorFrom(response, text);
  return { body: parseBody(response, text) as T, etag: response.headers.get("ETag") };
}

/** Returns the body of a GET. Throws ApiError. */
export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await fetchApi<T>(path, signal ? { signal } : {}))!.body;
}

/** Sends a body and returns that of the response. Throws ApiError. */
export async function sendJson<T>(method: string, path: string, body?: unknown): Promise<T> {
  return (await fetchApi<T>(path, { method, body, key: method === "POST" ? newIdempotencyKey() : "" }))!.body;
}

async function fetchText(path: string, { method = "GET", body, content, etag, key, signal, ...options }: RequestOptions) {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-None-Match"] = etag;
  if (key) headers["Idempotency-Key"] = key;
  const limit = AbortSignal.timeout(options.timeoutMs ?? REQUEST_TIMEOUT_MS);
  try {
    const response = await fetch(API_ROOT + path, {
      method,
      headers,
      body: content ?? (body === undefined ? null : JSON.stringify(body)),
      cache: "no-store", // we send the ETag ourselves; the browser's cache would hide a 304
      credentials: "same-origin",
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    return { response, text: await response.text() };
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("The server is not responding.", 0, "unreachable");
  }
}

function parseBody(response: Response, text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    throw new ApiError("The response is not valid JSON from the API.", response.status, "no_json");
  }
}

function errorFrom(response: Response, text: string): ApiError {
  const problem = parseProblem(text);
  const message = problem?.detail ?? `The server responded with status ${response.status}.`;
  return new ApiError(message, response.status, problem?.code ?? "unknown", {
    errors: problem?.errors ?? [],
    retryAfterS: Number(response.headers.get("Retry-After")) || 0,
  });
}

function parseProblem(text: string): Problem | null {
  try {
    const problem = JSON.parse(text);
    return typeof problem?.detail === "string" ? problem : null;
  } catch {
    return null; // not from the API: from a proxy
  }
}

/** A random key for a request that must not be carried out twice. */
function newIdempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
