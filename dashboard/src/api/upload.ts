// Uploads a file in pieces: a piece whose connection breaks is sent again from where the server is.
import { ApiError, fetchApi, getJson, sendJson } from "./request.ts";
import type { DatasetVersion, Upload } from "./types.ts";

export const PIECE_BYTES = 16 * 2 ** 20;
/** The server accepts at most 2000 parts. */
const MAX_PIECES = 1000;
const MAX_TRIES = 5;
const FIRST_WAIT_MS = 500;
const PIECE_TIMEOUT_MS = 10 * 60_000;
/** Completing reads the whole file on the server. */
const COMPLETE_TIMEOUT_MS = 60 * 60_000;

export type OnProgress = (sent: number, size: number) => void;

/** What this needs of a File. */
export interface Source {
  name: string;
  size: number;
  slice(start: number, end: number): Blob;
}

export interface Requests {
  start(file: string, sizeBytes: number): Promise<Upload>;
  offset(upload: Upload): Promise<number>;
  append(upload: Upload, offset: number, piece: Blob): Promise<number>;
  complete(upload: Upload): Promise<DatasetVersion>;
  remove(upload: Upload): Promise<void>;
  wait(ms: number): Promise<void>;
}

/** The requests of an upload to a dataset. */
export function uploadRequests(dataset: string, signal: AbortSignal): Requests {
  const root = `/datasets/${encodeURIComponent(dataset)}/uploads`;
  const pathOf = (upload: Upload) => `${root}/${upload.id}`;
  return {
    start: (file, sizeBytes) => sendJson<Upload>("POST", root, { file, size_bytes: sizeBytes }),
    offset: async (upload) => (await getJson<Upload>(pathOf(upload), signal)).offset,
    append: async (upload, offset, piece) => {
      const headers = { "Upload-Offset": String(offset) };
      const options = { method: "PATCH", content: piece, headers, signal, timeoutMs: PIECE_TIMEOUT_MS };
      return (await fetchApi<Upload>(pathOf(upload), options))!.body.offset;
    },
    complete: async (upload) => {
      const options = { method: "POST", timeoutMs: COMPLETE_TIMEOUT_MS };
      return (await fetchApi<DatasetVersion>(`${pathOf(upload)}/complete`, options))!.body;
    },
    remove: async (upload) => void (await fetchApi(pathOf(upload), { method: "DELETE" })),
    wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  };
}

/** Throws ApiError after several failures in a row; an upload that ends so is deleted. */
export async function uploadFile(file: Source, requests: Requests, onProgress: OnProgress): Promise<DatasetVersion> {
  const upload = await requests.start(file.name, file.size);
  try {
    await sendPieces(file, upload, requests, onProgress);
    return await requests.complete(upload);
  } catch (error) {
    await requests.remove(upload).catch(() => undefined); // it would expire anyway
    throw error;
  }
}

async function sendPieces(file: Source, upload: Upload, requests: Requests, onProgress: OnProgress): Promise<void> {
  const most = Math.max(PIECE_BYTES, Math.ceil(file.size / MAX_PIECES));
  let offset = upload.offset;
  let failed = 0;
  while (offset < file.size) {
    onProgress(offset, file.size);
    try {
      offset = await requests.append(upload, offset, file.slice(offset, Math.min(offset + most, file.size)));
      failed = 0;
    } catch (error) {
      if (!(error instanceof ApiError) || !mayRepeat(error) || ++failed >= MAX_TRIES) throw error;
      await requests.wait(FIRST_WAIT_MS * 2 ** failed);
      offset = await requests.offset(upload).catch(() => offset);
    }
  }
  onProgress(file.size, file.size);
}

/** 409: the server has these bytes already, because only its response was lost. */
function mayRepeat(error: ApiError): boolean {
  return error.isOutage || error.status === 409 || error.status === 429;
}

/** The name of a dataset for a file, as the command line chooses it; empty if it makes none. */
export function datasetNameOf(file: string): string {
  const stem = file.replace(/(.)\.[^.]*$/, "$1");
  return stem.toLowerCase().replace(/[^a-z0-9._-]+/g, "-").replace(/^[-._]+|[-._]+$/g, "").slice(0, 63);
}
