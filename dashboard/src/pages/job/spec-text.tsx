// The tab with the full spec as YAML.
import { useEffect, useState } from "preact/hooks";
import type { JsonObject } from "../../api/types.ts";
import { CopyButton } from "../../components/buttons.tsx";
import type { TabProps } from "./tab-props.ts";

export function SpecText({ job }: TabProps) {
  const [text, setText] = useState("");
  useEffect(() => {
    let current = true;
    // The YAML library is loaded when this tab is first opened.
    void import("../../display/yaml.ts").then(({ dump }) => {
      if (current) setText(dump(job.spec as unknown as JsonObject));
    });
    return () => {
      current = false;
    };
  }, [JSON.stringify(job.spec)]);
  return (
    <div class="stack">
      <div class="row"><CopyButton label="Copy YAML" text={text} /></div>
      <pre class="code" tabIndex={0} role="region" aria-label="Spec as YAML">{text}</pre>
    </div>
  );
}
