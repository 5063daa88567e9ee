// The files that the job has left, and its steps as files.
import { usePoll } from "../../api/poll.ts";
import { ROOT } from "../../api/request.ts";
import type { Artifact, ArtifactList } from "../../api/types.ts";
import { Empty, Standing } from "../../parts/standing.tsx";
import { bytes, moment, whole } from "../../words/format.ts";
import type { TabProps } from "./page.tsx";

const FORMS = ["csv", "ndjson", "parquet", "arrow", "tensorboard"];

export function Files({ job, everyMs }: TabProps) {
  const files = usePoll<ArtifactList>(`/jobs/${job.id}/artifacts`, everyMs);
  return (
    <div class="stack">
      <p class="row">
        <span>All steps as</span>
        {FORMS.map((form) => <a key={form} class="button small" download href={`${ROOT}/jobs/${job.id}/steps?format=${form}`}>{form}</a>)}
      </p>
      <Standing what="files" of={files}>
        {({ items }) => items.length === 0
          ? <Empty title="No files yet">Checkpoints, the model and reports appear here.</Empty>
          : <FileTable jobId={job.id} files={items} />}
      </Standing>
    </div>
  );
}

function FileTable({ jobId, files }: { jobId: string; files: readonly Artifact[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Files">
      <table class="table">
        <thead>
          <tr>
            <th scope="col">File</th><th scope="col">Kind</th><th scope="col" class="number">Step</th>
            <th scope="col" class="number">Size</th><th scope="col">SHA-256</th><th scope="col">Written</th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <tr key={file.path}>
              <td><a download href={`${ROOT}/jobs/${jobId}/artifacts/${file.path.split("/").map(encodeURIComponent).join("/")}`}>{file.path}</a></td>
              <td>{file.kind}</td>
              <td class="number">{whole(file.step)}</td>
              <td class="number">{bytes(file.size_bytes)}</td>
              <td><code class="digest" title={file.sha256}>{file.sha256}</code></td>
              <td class="muted">{moment(file.created_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
