// One version of a model: its files, lineage and model card.
import { API_ROOT } from "../../api/request.ts";
import type { ModelFile, ModelVersion } from "../../api/types.ts";
import { routeHref } from "../../router.ts";
import { CopyButton } from "../../components/buttons.tsx";
import { bytes } from "../../display/format.ts";
import { fileNote, lineageRows, metricsText, referenceOf } from "../../display/models.ts";

export function VersionContent({ root, version }: { root: string; version: ModelVersion }) {
  const reference = referenceOf(version);
  const path = `${API_ROOT}${root}/versions/${version.number}`;
  const study = version.lineage["study"];
  return (
    <section class="stack" aria-label={`Content of ${reference}`}>
      <div class="row">
        <h2>{reference}</h2>
        <CopyButton label="Copy reference" text={reference} />
        <a class="button" download href={`${path}/card`}>Model card</a>
        {typeof study === "string" && <a class="button" href={routeHref(["studies", study])}>Study</a>}
      </div>
      {version.deleted_at !== null && <p class="callout warning">This version is deleted.</p>}
      {version.note !== null && <p class="break">{version.note}</p>}
      <p class="muted break">{metricsText(version, 20)}</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Files of the version">
        <table class="table" aria-label="Files">
          <thead><tr><th scope="col">Format</th><th scope="col">File</th><th scope="col" class="number">Size</th><th scope="col">Check or reason</th></tr></thead>
          <tbody>{version.files.map((file) => <FileRow key={file.format} path={path} file={file} />)}</tbody>
        </table>
      </div>
      <table class="table" aria-label="Lineage">
        <tbody>
          {lineageRows(version).map(([title, value]) => <tr key={title}><th scope="row">{title}</th><td class="break">{value}</td></tr>)}
        </tbody>
      </table>
    </section>
  );
}

function FileRow({ path, file }: { path: string; file: ModelFile }) {
  const name = file.file_name ?? null;
  return (
    <tr>
      <td>{file.format}</td>
      <td>{name !== null && <a download href={`${path}/files/${file.format}`}>{name}</a>}</td>
      <td class="number">{name !== null && bytes(file.size_bytes)}</td>
      <td class="break">{fileNote(file)}</td>
    </tr>
  );
}
