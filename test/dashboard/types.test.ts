import { readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../scripts/monitor-types.mjs', import.meta.url))

test('the page is compiled against the API that the server answers', async () => {
  const { monitorTypes, TYPES } = (await import(pathToFileURL(SCRIPT).href)) as {
    readonly monitorTypes: () => Promise<string>
    readonly TYPES: string
  }
  expect(readFileSync(TYPES, 'utf8'), 'run: npx node scripts/monitor-types.mjs').toBe(await monitorTypes())
})
