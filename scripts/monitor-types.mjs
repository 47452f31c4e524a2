// Writes the types of the monitor API into the dashboard, from the document that servers answer at /openapi.json. Run it
// after every change of an operation of the monitor; test/dashboard/types.test.ts fails until then.
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { MONITOR_ROUTES } from '../src/http/monitor/routes.ts'
import { openApi } from '../src/http/open-api.ts'

export const TYPES = fileURLToPath(new URL('../dashboard/src/api/openapi.ts', import.meta.url))
const OPTIONS = { immutable: true, rootTypes: true, rootTypesNoSchemaPrefix: true }
/** Parts that say nothing. */
const EMPTY = [
  /\n\s*(?:readonly )?\w+\??: never;/g,
  /\n\s*(?:readonly )?headers: \{\s*readonly \[name: string\]: unknown;\s*\};/g,
  /\n\s*(?:readonly )?parameters: \{\s*\};/g,
  /\nexport type \S+ = Record<string, never>;/g,
]
const HEAD = '// Written by scripts/monitor-types.mjs from /openapi.json.\n'

/** The types of the monitor's operations by their paths. */
export async function monitorTypes() {
  // The generator needs an older TypeScript than this project, so that it has a workspace of its own.
  const inHome = createRequire(new URL('../test/openapi-client/package.json', import.meta.url))
  const { default: typesOf, astToString } = inHome(inHome.resolve('openapi-typescript'))
  const { paths, components, ...document } = openApi(MONITOR_ROUTES, '0', 'monitor')
  const own = Object.entries(paths).map(([path, methods]) => [path.replace('/monitor/v1', ''), methods])
  const schemas = Object.entries(components.schemas).filter(([name]) => name.startsWith('Monitor'))
  const made = await typesOf(
    {
      ...document,
      components: { schemas: Object.fromEntries(schemas) },
      paths: withoutRefusals(Object.fromEntries(own)),
    },
    OPTIONS,
  )
  return `${HEAD}${EMPTY.reduce((text, part) => text.replaceAll(part, ''), astToString(made))}`
}

/** The document with the answers of successes alone: the page reads every refusal in one way. */
function withoutRefusals(value) {
  if (Array.isArray(value)) return value.map(withoutRefusals)
  if (typeof value !== 'object' || value === null) return value
  const { default: refusal, ...rest } = value
  const kept = refusal?.content ? rest : value
  return Object.fromEntries(Object.entries(kept).map(([name, each]) => [name, withoutRefusals(each)]))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(TYPES, await monitorTypes())
