import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const script: string = new URL('../../scripts/embed-lua.mjs', import.meta.url).href

it('the embedded scripts are those of the .lua files', async () => {
  const { embedded } = (await import(script)) as { readonly embedded: () => string }
  const file = new URL('../../src/limiter/redis/lua/embedded.ts', import.meta.url)
  expect(readFileSync(file, 'utf8'), 'run: npx node scripts/embed-lua.mjs').toBe(embedded())
})
