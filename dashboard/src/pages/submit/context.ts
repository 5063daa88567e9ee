// What every field of the form knows: the document, how to change it, and what is wrong with it.
import { createContext } from "preact";
import type { Json, JsonObject } from "../../api/types.ts";
import type { Path, Schemas } from "./schema.ts";

export interface FormState {
  schemas: Schemas;
  document: JsonObject;
  change: (path: Path, value: Json | undefined) => void;
  /** The mistakes by pointer. */
  mistakes: ReadonlyMap<string, string>;
}

export const FormContext = createContext<FormState>({
  schemas: {},
  document: {},
  change: () => undefined,
  mistakes: new Map(),
});
