// What packages on workers offer for a part of a spec with `kind: package`.
import { usePoll } from "../../api/use-poll.ts";
import type { ExtensibleKindList, Json, JsonObject } from "../../api/types.ts";
import { optionTexts } from "../../display/custom-code.ts";
import type { Path } from "./schema.ts";

const INTERVAL_MS = 60_000;

interface Props {
  path: Path;
  value: Json | undefined;
  onValue: (value: JsonObject) => void;
}

export function PackageEntries({ path, value, onValue }: Props) {
  const list = usePoll<ExtensibleKindList>(listPath(path), INTERVAL_MS);
  if (list.data === null) return null;
  const entries = list.data.packages ?? [];
  if (entries.length === 0) return <p class="muted help">No online worker has a package for this. The job waits until one has it.</p>;
  const given = value && typeof value === "object" && !Array.isArray(value) ? value : {};
  const chosen = entries.find((one) => one.package === given["package"] && one.name === given["name"]);
  const options = optionTexts(chosen?.schema);
  return (
    <div class="stack wide">
      <label class="field">
        <span>Installed on workers</span>
        <select
          value={chosen ? entries.indexOf(chosen) : ""}
          onChange={(event) => {
            const entry = entries[Number(event.currentTarget.value)];
            if (entry) onValue({ ...given, kind: "package", package: entry.package, name: entry.name });
          }}
        >
          {!chosen && <option value="">select</option>}
          {entries.map((one, index) => <option key={index} value={index}>{one.name} of {one.package} {one.version}</option>)}
        </select>
      </label>
      {chosen?.description && <p class="muted help">{chosen.description.split("\n")[0]}</p>}
      {options.length > 0 && <p class="muted help">Options, which are set in the YAML: {options.join("; ")}</p>}
    </div>
  );
}

function listPath(path: Path): string {
  if (path[0] === "model") return "/catalog/models";
  if (path[0] === "data") return "/catalog/data-kinds";
  if (path[0] === "optimizer" || path[0] === "optimizers") return "/catalog/optimizers";
  return path.includes("metrics") ? "/catalog/metrics" : "/catalog/losses";
}
