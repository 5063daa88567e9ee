// The tab with the files of a job, its own code, and its steps as downloads.
import { usePoll } from "../../api/use-poll.ts";
import { API_ROOT } from "../../api/request.ts";
import type { Artifact, ArtifactList } from "../../api/types.ts";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { bytes, dateTime, integer } from "../../display/format.ts";
import { Code } from "./code.tsx";
import type { TabProps } from "./tab-props.ts";

const EXPORT_FORMATS = ["csv", "ndjson", "parquet", "arrow", "tensorboard"];

export function Artifacts({ job, intervalMs, pulse }: TabProps) {
  const files = usePoll<ArtifactList>(`/jobs/${job.id}/artifacts`, intervalMs, pulse);
  return (
    <div class="stack">
      <Code job={job} />
      <p class="row">
        <span>Download all steps as</span>
        {EXPORT_FORMATS.map((form) => <a key={form} class="button small" download href={`${API_ROOT}/jobs/${job.id}/steps?format=${form}`}>{form}</a>)}
      </p>
      <LoadState what="files" of={files}>
        {({ items }) => items.length === 0
          ? <EmptyState title="No files yet">Checkpoints, the trained model and reports will appear here.</EmptyState>
          : <FileTable jobId={job.id} files={items} />}
      </LoadState>
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
            <th scope="col" class="number">Size</th><th scope="col">SHA-256</th><th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <tr key={file.path}>
              <td><a download href={`${API_ROOT}/jobs/${jobId}/artifacts/${file.path.split("/").map(encodeURIComponent).join("/")}`}>{file.path}</a></td>
              <td>{file.kind}</td>
              <td class="number">{integer(file.step)}</td>
              <td class="number">{bytes(file.size_bytes)}</td>
              <td><code class="digest" title={file.sha256}>{file.sha256}</code></td>
              <td class="muted">{dateTime(file.created_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
