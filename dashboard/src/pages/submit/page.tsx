// Post a job: a form made from the spec's schema, and the same as YAML beside it. Either may be
// edited; the server looks at it while one types.
import { useEffect, useState } from "preact/hooks";
import type { Place } from "../../address.ts";
import { failed } from "../../api/connection.ts";
import { ApiError, read } from "../../api/request.ts";
import type { Job, JsonObject } from "../../api/types.ts";
import { Failure, Loading } from "../../parts/standing.tsx";
import { Editor } from "./editor.tsx";
import type { Schemas } from "./schema.ts";

export interface Example {
  summary: string;
  value: JsonObject;
}

export interface Description {
  schemas: Schemas;
  examples: Record<string, Example>;
}

interface Document {
  components: { schemas: Schemas };
  paths: Record<string, { post?: { requestBody?: { content: Record<string, { examples?: Record<string, Example> }> } } }>;
}

interface Ready {
  description: Description;
  start: JsonObject;
  origin: Job | null;
}

export function SubmitPage({ place }: { place: Place }) {
  const from = place.query.get("from");
  const [ready, setReady] = useState<Ready | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const load = async () => {
    try {
      setReady(await prepared(from));
      setError(null);
    } catch (problem) {
      setError(failed(problem));
    }
  };
  useEffect(() => {
    setReady(null);
    void load();
  }, [from]);
  useEffect(() => {
    if (!error?.isOutage) return;
    const timer = setTimeout(() => void load(), 3000);
    return () => clearTimeout(timer);
  }, [error]);
  if (ready) return <Editor key={from ?? ""} {...ready} />;
  return error ? <Failure what="form" error={error} /> : <Loading what="the form" />;
}

/** What a spec may say, and what to begin with: an older job, or an example. */
async function prepared(from: string | null): Promise<Ready> {
  const [description, origin] = await Promise.all([
    read<Document>("/openapi.json").then(descriptionOf),
    from === null ? null : read<Job>(`/jobs/${encodeURIComponent(from)}`),
  ]);
  const example = Object.values(description.examples).at(-1)?.value ?? {};
  return { description, start: origin ? (origin.spec as unknown as JsonObject) : example, origin };
}

function descriptionOf(document: Document): Description {
  const body = document.paths["/api/v1/jobs"]?.post?.requestBody;
  return { schemas: document.components.schemas, examples: body?.content["application/json"]?.examples ?? {} };
}
