// The form that uploads a file as the next version of a dataset, with its progress.
import { useEffect, useRef, useState } from "preact/hooks";
import { toApiError } from "../../api/connection.ts";
import { datasetNameOf, uploadFile, uploadRequests } from "../../api/upload.ts";
import { notify } from "../../notifications.ts";
import { bytes, percent } from "../../display/format.ts";

const NAME_PATTERN = "[a-z0-9][a-z0-9._\\-]{0,62}";

interface Sent {
  sent: number;
  size: number;
}

export function UploadForm({ onDone, dataset }: { onDone: () => void; dataset?: string }) {
  const [file, setFile] = useState<File | null>(null);
  const [name, setName] = useState(dataset ?? "");
  const [progress, setProgress] = useState<Sent | null>(null);
  const form = useRef<HTMLFormElement>(null);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  useWarningWhileUploading(progress !== null);

  const choose = (chosen: File | null) => {
    setFile(chosen);
    if (chosen !== null && dataset === undefined && name === "") setName(datasetNameOf(chosen.name));
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (file === null) return;
    const controller = (abort.current = new AbortController());
    setProgress({ sent: 0, size: file.size });
    try {
      const requests = uploadRequests(name, controller.signal);
      const version = await uploadFile(file, requests, (sent, size) => setProgress({ sent, size }));
      notify("done", `${version.dataset}@${version.number} is ready.`);
      form.current?.reset();
      setFile(null);
      if (dataset === undefined) setName("");
      onDone();
    } catch (error) {
      notify("failed", controller.signal.aborted ? "The upload was cancelled." : toApiError(error).message);
    }
    setProgress(null);
  };
  return (
    <form ref={form} class="card filters" aria-label="Upload dataset" onSubmit={(event) => void submit(event)}>
      <label class="field grow"><span>File</span>
        <input type="file" required disabled={progress !== null} onChange={(event) => choose(event.currentTarget.files?.[0] ?? null)} />
      </label>
      {dataset === undefined && (
        <label class="field"><span>Dataset</span>
          <input required pattern={NAME_PATTERN} title="Lower-case letters, digits, dots, dashes and underscores" maxLength={63} value={name} disabled={progress !== null} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
      )}
      {progress === null
        ? <button type="submit" class="button primary">{dataset === undefined ? "Upload" : "Upload new version"}</button>
        : <UploadProgress progress={progress} onCancel={() => abort.current?.abort()} />}
    </form>
  );
}

function UploadProgress({ progress: { sent, size }, onCancel }: { progress: Sent; onCancel: () => void }) {
  const isSent = sent >= size;
  return (
    <div class="row" role="status">
      <span class="progress">
        <progress max={Math.max(size, 1)} value={isSent ? Math.max(size, 1) : sent} aria-label="Upload progress" />
        <span class="progress-words">{isSent ? "Checking the file…" : `${percent(sent / size)} of ${bytes(size)}`}</span>
      </span>
      {!isSent && <button type="button" class="button" onClick={onCancel}>Cancel</button>}
    </div>
  );
}

/** Ask before the page is closed: the upload would end. */
function useWarningWhileUploading(isUploading: boolean): void {
  useEffect(() => {
    if (!isUploading) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isUploading]);
}
