// The files of deploy/: what they name exists, and what can run here runs.
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseYaml } from '@redocly/openapi-core'
import { describe, expect, test } from 'vitest'
import { folder, sluice, start } from './terminal.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string): string => readFileSync(`${root}${path}`, 'utf8')
const FILES = readdirSync(`${root}deploy`)

interface Service {
  readonly command?: readonly string[]
  readonly image?: string
  readonly configs?: readonly { readonly source: string }[]
  readonly secrets?: readonly string[]
}
interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly configs: Readonly<Record<string, { readonly file: string }>>
  readonly secrets: Readonly<Record<string, unknown>>
}
interface Probe {
  readonly httpGet: { readonly path: string }
}
interface Container {
  readonly args: readonly string[]
  readonly livenessProbe: Probe
  readonly readinessProbe: Probe
}
type Kubernetes = Partial<{ kind: string; spec: { template: { spec: { containers: readonly Container[] } } } }>

const compose = parseYaml(read('deploy/compose.yaml').replaceAll(/^\s*<<: .*$/gm, '')) as Compose
const shared = parseYaml(read('deploy/compose.yaml')) as { 'x-server': Service }
const kubernetes = read('deploy/kubernetes.yaml')
  .split('\n---\n')
  .map((text) => parseYaml(text) as Kubernetes)
const container = kubernetes.find(({ kind }) => kind === 'Deployment')?.spec?.template.spec.containers[0] as Container
const unit = read('deploy/sluice.service')

/** The words behind the program in the commands of all files. */
const commands: readonly (readonly string[])[] = [
  ...[shared['x-server'], ...Object.values(compose.services)].flatMap(({ command }) => (command ? [command] : [])),
  container.args,
  ...[...unit.matchAll(/^Exec.*main\.js (.+)$/gm)].map(([, words = '']) => words.split(' ')),
  JSON.parse(/^CMD (.+)$/m.exec(read('deploy/Dockerfile'))?.[1] ?? '[]') as string[],
]

describe('the files of deploy/', () => {
  test.each(['serve', 'dashboard'])('give sluice %s only options that it has', async (command) => {
    const { out } = await sluice([command, '--help'])
    const given = commands.filter(([name]) => name === command).flat()
    const flags = given.filter((word) => word.startsWith('--'))
    expect(flags).not.toEqual([])
    for (const flag of flags) expect(out).toContain(`${flag} `)
  })

  test('name no other command', () => {
    expect(new Set(commands.map(([name]) => name))).toEqual(new Set(['serve', 'dashboard']))
  })

  test('set only variables that sluice reads', () => {
    const known = `${read('docs/operate/server.md')}${read('docs/reference/cli.md')}${read('docs/operate/dashboard.md')}`
    for (const file of FILES) {
      const set = [...read(`deploy/${file}`).matchAll(/^\s*(?:Environment=|- name: )?(SLUICE_\w+)\s*[:=]?\s/gm)]
      for (const [, name = ''] of set) expect(known, `${name} of ${file}`).toContain(name)
    }
  })

  test('refer within a file to what the file has', () => {
    for (const { configs = [], secrets = [] } of Object.values(compose.services)) {
      for (const { source } of configs) expect(Object.keys(compose.configs)).toContain(source)
      for (const secret of secrets) expect(Object.keys(compose.secrets)).toContain(secret)
    }
    for (const { file } of Object.values(compose.configs)) expect(FILES).toContain(file.replace('./', ''))
  })

  test('the unit starts again for as long as its store is away', () => {
    // systemd gives up on a unit after five starts within ten seconds.
    const pauseS = Number(/^RestartSec=(\d+)$/m.exec(unit)?.[1])
    expect(5 * pauseS).toBeGreaterThan(10)
  })

  test('start the program of the package, as a user without rights', () => {
    const { bin } = JSON.parse(read('package.json')) as { bin: { sluice: string } }
    const program = `node_modules/sluice/${bin.sluice.replace('./', '')}`
    expect(read('deploy/Dockerfile')).toContain(`ENTRYPOINT ["/nodejs/bin/node", "${program}"]`)
    expect(read('deploy/Dockerfile')).toMatch(/^USER nonroot$/m)
    for (const [line] of unit.matchAll(/^ExecStart.*$/gm)) expect(line).toContain(`/opt/sluice/${program} `)
    expect(unit).toMatch(/^DynamicUser=yes$/m)
  })

  test('let idle connections of a proxy go before the server does', () => {
    const keptMs = Number(/KEEP_ALIVE_MS = ([\d_]+)/.exec(read('src/http/listen.ts'))?.[1]?.replaceAll('_', ''))
    const seconds = [
      /keepalive_timeout (\d+)s/.exec(read('deploy/nginx.conf')),
      /keepalive (\d+)s/.exec(read('deploy/Caddyfile')),
    ].map((found) => Number(found?.[1]))
    for (const second of seconds) expect(second * 1000).toBeLessThan(keptMs)
  })

  test('have a configuration that sluice serve takes, and probes that it answers', async () => {
    const store = `sqlite:${folder()}/sluice.db`
    const args = ['serve', '--config', `${root}deploy/server.json`, '--store', store]
    expect(await sluice([...args, '--check'])).toMatchObject({ code: 0 })
    const server = start(...args, '--port', '0')
    let out = ''
    server.stdout?.on('data', (data: Buffer) => (out += data.toString()))
    server.stderr?.on('data', (data: Buffer) => (out += data.toString()))
    await expect.poll(() => out).toMatch(/^listening on /m)
    const address = /^listening on (\S+)$/m.exec(out)?.[1]
    const metrics = /metrics_path: (\S+)/.exec(read('deploy/prometheus.yml'))?.[1]
    const health = /health_uri (\S+)/.exec(read('deploy/Caddyfile'))?.[1]
    for (const path of [container.livenessProbe.httpGet.path, container.readinessProbe.httpGet.path, metrics, health])
      expect(await fetch(`${address}${path}`)).toMatchObject({ status: 200 })
    server.kill('SIGTERM')
    expect(await once(server, 'exit')).toEqual([0, null])
  })
})
