// The size of a bundle for plain code under budgets in memory: every chunk that it loads before its first call.
import { gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'
import { expect, it } from 'vitest'

const ENTRY = 'virtual:entry'
const DOOR = new URL('../../src/exports/limiter.ts', import.meta.url).pathname

it('the memory limiter stays small, and brings no backend, no zod and no text of the error table along', async () => {
  const build = await rolldown({
    input: ENTRY,
    platform: 'node',
    external: [/^node:/, 'redis', /^@nats-io/],
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id === ENTRY ? id : null),
        load: (id) => (id === ENTRY ? `export { createLimiter, limit } from '${DOOR}'` : null),
      },
    ],
  })
  const { output } = await build.generate({ minify: true })
  const chunks = new Map(output.flatMap((each) => (each.type === 'chunk' ? [[each.fileName, each] as const] : [])))
  const loaded = new Set([...chunks.values()].filter(({ isEntry }) => isEntry))
  for (const { imports } of loaded)
    for (const name of imports) {
      const chunk = chunks.get(name)
      if (chunk) loaded.add(chunk)
    }
  const code = [...loaded].map((each) => each.code).join('\n')
  const modules = [...loaded].flatMap((each) => each.moduleIds)
  expect(modules.filter((id) => /\/node_modules\/|\/limiter\/(redis|nats)\/|\/store\/|\/engine\//.test(id))).toEqual([])
  expect(code).not.toContain('Install Node 22.16')
  expect(code.length).toBeLessThan(102_000)
  expect(gzipSync(code).length).toBeLessThan(35_000)
  await build.close()
})
