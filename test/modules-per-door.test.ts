// The modules that a door loads before anything is opened: a backend comes with the first use of its URL or its door, not with an import.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = new URL('..', import.meta.url)
const BACKEND = /\/src\/store\/(?:postgres|sqlite)\/|\/src\/database\/|^node:sqlite$|\/node_modules\/pg\//

/** Runs code in a process of its own; answers the modules that this loaded, in their order. */
function modulesOf(code: string): string[] {
  const script = `
    import { registerHooks } from 'node:module'
    const loaded = []
    registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
    ${code}
    process.stdout.write(JSON.stringify(loaded))`
  const out = execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: fileURLToPath(ROOT),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return JSON.parse(out) as string[]
}

function own(modules: readonly string[]): string[] {
  return modules.filter((url) => url.startsWith(`${ROOT.href}src/`))
}

describe('a door', () => {
  it.each([
    ['index', 155],
    ['limiter', 82],
    ['redis', 55],
    ['bullmq', 16],
    ['nats', 57],
    ['testing', 157],
    ['testing/limiter-suite', 33],
    ['flows', 126],
    ['http', 325],
    ['opentelemetry', 21],
    ['dashboard', 290],
    ['presets', 38],
  ])('%s loads no backend, and of this package at most %i modules', (door, most) => {
    const modules = modulesOf(`await import('./src/exports/${door}.ts')`)
    expect(modules.filter((url) => BACKEND.test(url))).toEqual([])
    expect(own(modules).length).toBeLessThanOrEqual(most)
    expect(own(modules).length).toBeGreaterThan(most * 0.8)
  })

  it('of PostgreSQL loads no SQLite', () => {
    const modules = modulesOf(`await import('./src/exports/postgres.ts')`)
    expect(modules.filter((url) => /sqlite/.test(url))).toEqual([])
    expect(own(modules).length).toBeLessThanOrEqual(236)
  })
})

describe('an engine', () => {
  const engine = (url: string, then: string): string[] =>
    modulesOf(`
      const { Sluice } = await import('./src/exports/index.ts')
      const sluice = new Sluice({ store: '${url}', tasks: [] })
      ${then}
      await sluice.stop()`)

  it.each(['sqlite::memory:', 'postgres://nobody@127.0.0.1:1/none'])('on %s loads nothing before it is used', (url) => {
    expect(engine(url, '').filter((each) => BACKEND.test(each))).toEqual([])
  })

  it('on SQLite never loads PostgreSQL', () => {
    const modules = engine('sqlite::memory:', 'await sluice.start()')
    expect(modules.some((url) => url.includes('/src/store/sqlite/'))).toBe(true)
    expect(
      modules.filter((url) => /\/src\/store\/postgres\/|\/src\/database\/p|\/node_modules\/pg\//.test(url)),
    ).toEqual([])
  })
})
