// The spec in full, as YAML.
import { useEffect, useState } from "preact/hooks";
import type { JsonObject } from "../../api/types.ts";
import { Copy } from "../../parts/copy.tsx";
import type { TabProps } from "./page.tsx";

export function SpecText({ job }: TabProps) {
  const [text, setText] = useState("");
  useEffect(() => {
    let current = true;
    // The YAML writer is fetched when somebody looks at YAML.
    void import("../../words/yaml.ts").then(({ dump }) => {
      if (current) setText(dump(job.spec as unknown as JsonObject));
    });
    return () => {
      current = false;
    };
  }, [JSON.stringify(job.spec)]);
  return (
    <div class="stack">
      <div class="row"><Copy label="Copy the YAML" text={text} /></div>
      <pre class="code" tabIndex={0} role="region" aria-label="Spec as YAML">{text}</pre>
    </div>
  );
}
