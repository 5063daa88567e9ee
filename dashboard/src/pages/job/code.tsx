// The code of a job whose model is built by a bundle: its function, its files, and their download.
import { usePoll } from "../../api/use-poll.ts";
import { API_ROOT } from "../../api/request.ts";
import type { Job, StoredFile } from "../../api/types.ts";
import { LoadState } from "../../components/load-state.tsx";
import { bytes } from "../../display/format.ts";

const INTERVAL_MS = 600_000; // a file never changes
const DIGEST_PREFIX = "sha256:";

export function Code({ job }: { job: Job }) {
  const model = job.spec.model as { kind?: string; bundle?: string; build?: string } | undefined;
  if (model?.kind !== "bundle" || !model.bundle) return null;
  return <Bundle sha256={model.bundle.slice(DIGEST_PREFIX.length)} build={model.build ?? ""} project={job.project} />;
}

function Bundle({ sha256, build, project }: { sha256: string; build: string; project: string }) {
  const path = `/files/bundle/${sha256}`;
  const query = `project=${encodeURIComponent(project)}`;
  const file = usePoll<StoredFile>(`${path}?${query}`, INTERVAL_MS);
  return (
    <section class="card stack" aria-label="Code">
      <p class="row">
        <span>The model is built by <code>{build}</code> of this code</span>
        <a class="button small" download href={`${API_ROOT}${path}/content?${query}`}>Download</a>
      </p>
      <p><code class="digest" title={sha256}>{sha256}</code></p>
      <LoadState what="the code" of={file}>
        {({ contents }) => (
          <ul aria-label="Files of the code">
            {(contents ?? []).map(({ name, size_bytes }) => <li key={name}>{name} <small>{bytes(size_bytes)}</small></li>)}
          </ul>
        )}
      </LoadState>
    </section>
  );
}
