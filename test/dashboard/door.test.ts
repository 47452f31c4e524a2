import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createPage } from '../../src/dashboard/page-files.ts'
import { createDashboard, type Dashboard, type DashboardOptions } from '../../src/exports/dashboard.ts'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { missing } from '../services.ts'

const PAGE = fileURLToPath(new URL('../../dist/dashboard/page/', import.meta.url))
const isBuilt =
  existsSync(PAGE) || missing('the page is not built; run `npm run build`', 'the door of the dashboard') !== null

async function open(options: Partial<DashboardOptions> = {}): Promise<Dashboard> {
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], queues: {}, logger: silentLogger })
  await sluice.start()
  const dashboard = createDashboard({ sluice, authorize: () => ({ role: 'operator', name: 'ada' }), ...options })
  onTestFinished(async () => {
    dashboard.close()
    await sluice.stop({ within: 0 })
  })
  return dashboard
}

const ask = (dashboard: Dashboard, path: string, init: RequestInit = {}): Promise<Response> =>
  dashboard.fetch(new Request(`http://127.0.0.1${path}`, init))

describe.runIf(isBuilt)('createDashboard', () => {
  it('answers its page at each path below it, with the place where it is mounted', async () => {
    const dashboard = await open({ basePath: '/admin/jobs' })
    for (const path of ['/admin/jobs', '/admin/jobs/', '/admin/jobs/limits/crm', '/admin/jobs/limits/a%2Fb']) {
      const response = await ask(dashboard, path)
      expect(response.status).toBe(200)
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(await response.text()).toContain('<base href="/admin/jobs/" />')
    }
  })

  it('is nowhere else', async () => {
    const dashboard = await open({ basePath: '/admin/jobs' })
    for (const path of ['/', '/admin', '/admin/jobsboard', '/monitor/v1/me']) {
      expect(dashboard.serves(path)).toBe(false)
      expect((await ask(dashboard, path)).status).toBe(404)
    }
    expect(dashboard.serves('/admin/jobs/monitor/v1/me')).toBe(true)
  })

  it('lets the page run only its own scripts, and no other page show it', async () => {
    const { headers } = await ask(await open(), '/dashboard')
    const policy = headers.get('content-security-policy')
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("script-src 'self';")
    expect(policy).toContain("style-src 'self';")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toMatch(/unsafe|\*|http/)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cache-control')).toBe('no-cache')
  })

  it('sends a file of the page once: compressed, with its type, for ever', async () => {
    const dashboard = await open()
    const script = readdirSync(`${PAGE}assets`).find((file) => file.endsWith('.js'))!
    const path = `/dashboard/assets/${script}`
    const plain = await ask(dashboard, path)
    expect(plain.headers.get('cache-control')).toContain('immutable')
    expect(plain.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    const zipped = await ask(dashboard, path, { headers: { 'accept-encoding': 'gzip, br' } })
    expect(zipped.headers.get('content-encoding')).toBe('gzip')
    const short = (await zipped.arrayBuffer()).byteLength
    expect(short).toBeLessThan((await plain.arrayBuffer()).byteLength)
    expect(zipped.headers.get('content-length')).toBe(String(short))
    const again = await ask(dashboard, path, { headers: { 'if-none-match': plain.headers.get('etag')! } })
    expect(again.status).toBe(304)
  })

  it('does not answer its page in place of a file that is gone, nor a file outside of it', async () => {
    const dashboard = await open()
    expect((await ask(dashboard, '/dashboard/assets/index-old.js')).status).toBe(404)
    for (const path of ['/dashboard/..%2f..%2fpackage.json', '/dashboard/%2e%2e/%2e%2e/package.json']) {
      const response = await ask(dashboard, path)
      expect(await response.text()).not.toContain('"dependencies"')
    }
  })

  it('takes no change at the path of the page', async () => {
    const response = await ask(await open(), '/dashboard', { method: 'POST' })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe('GET, HEAD')
  })

  it('asks the application at each request for data, and gives a stranger none', async () => {
    const dashboard = await open({
      authorize: (request) => (request.headers.get('cookie') === 'who=ada' ? { role: 'reader', name: 'ada' } : null),
    })
    expect((await ask(dashboard, '/dashboard/monitor/v1/me')).status).toBe(401)
    const response = await ask(dashboard, '/dashboard/monitor/v1/me', { headers: { cookie: 'who=ada' } })
    expect(await response.json()).toMatchObject({ name: 'ada', role: 'reader' })
  })

  it.each([
    [{ signIn: 'cookie' }, 'signIn'],
    [{ basePath: 'admin' }, 'basePath'],
    [{ basePath: '/admin/' }, 'basePath'],
    [{ basePath: '/a"><script>' }, 'basePath'],
    [{ authorise: () => 'operator' }, 'authorise'],
    [{ authorize: 'operator' }, 'authorize'],
    [{ sluice: {} }, 'sluice'],
  ])('refuses %o', async (options, name) => {
    await expect(open(options as unknown as Partial<DashboardOptions>)).rejects.toMatchObject({
      code: 'option.invalid',
      message: expect.stringContaining(name) as string,
    })
  })
})

it('a package without the page says how it is built', () => {
  const options = { basePath: '/dashboard', api: '/monitor/v1', signIn: 'token' } as const
  const folder = `${mkdtempSync(join(tmpdir(), 'sluice-page-'))}/`
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const each of [folder, `${folder}none/`])
    expect(() => createPage(options, each)).toThrow(
      expect.objectContaining({
        code: 'dashboard.missing',
        message: expect.stringContaining('Run `npm run build`') as string,
      }),
    )
})
