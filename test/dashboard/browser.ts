// A real Chromium on the dashboard of an engine, served over HTTP.
import { serve } from '@hono/node-server'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, onTestFinished } from 'vitest'
import { createDashboard, type DashboardOptions } from '../../src/exports/dashboard.ts'
import type { Sluice } from '../../src/exports/index.ts'
import { missing } from '../services.ts'
import type { OnEnd, StoreKind } from '../stores.ts'
import { busyEngine, fill } from './busy-engine.ts'

/** Where Debian's package puts it. */
const CHROMIUM = process.env['SLUICE_TEST_CHROMIUM'] ?? '/usr/bin/chromium'
/** Only what hangs is given up, as everywhere in the tests. */
const PATIENCE_MS = 60_000
/** The background work of a browser would look up hosts that no test machine reaches. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** The browser of the tests; null where there is none, which is said aloud. */
export async function findBrowser(leftOut: string): Promise<Browser | null> {
  if (!existsSync(CHROMIUM)) return missing(`${CHROMIUM} is not here`, leftOut)
  if (!existsSync(new URL('../../dist/dashboard/page/index.html', import.meta.url)))
    return missing('the page is not built; run `npm run build`', leftOut)
  return new Browser()
}

/** One process of Chromium for a file of tests, with a window for each. */
export class Browser {
  #context: Promise<BrowserContext> | null = null
  readonly #profile = mkdtempSync(join(tmpdir(), 'sluice-chromium-'))

  async close(): Promise<void> {
    await (await this.#context)?.close()
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 })
  }

  /** A new window that lives until the test has finished, and all that its console complained of. */
  async window(size: { width: number; height: number } = { width: 1440, height: 900 }): Promise<Window> {
    this.#context ??= chromium.launchPersistentContext(this.#profile, {
      executablePath: CHROMIUM,
      headless: true,
      args: FLAGS,
      locale: 'en-GB',
      timezoneId: 'UTC',
    })
    const page = await (await this.#context).newPage()
    await page.setViewportSize(size)
    page.setDefaultTimeout(PATIENCE_MS)
    const complaints: string[] = []
    page.on('console', (message) => {
      // The browser notes each request that a server refused; whether the page says so is seen on the page.
      const noted = message.text().startsWith('Failed to load resource')
      if (!noted && (message.type() === 'error' || message.type() === 'warning')) complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(String(error)))
    onTestFinished(() => page.close())
    return { page, complaints }
  }
}

/** A window of the browser. */
export interface Window {
  readonly page: Page
  /** Errors and warnings of the page: a refused script or style is among them. */
  readonly complaints: string[]
}

/** A dashboard that listens. */
export interface Served {
  readonly url: string
  /** Stops listening, and ends every connection. */
  stop(): Promise<void>
  /** Listens again, at the same port. */
  restart(): Promise<void>
}

/** Serves the dashboard of an engine. @param onEnd takes what stops it; default: at the end of the test */
export async function serveDashboard(
  sluice: Sluice,
  options: Partial<DashboardOptions> = {},
  onEnd: OnEnd = onTestFinished,
): Promise<Served> {
  const listening = async (port: number): Promise<{ port: number; stop(): Promise<void> }> => {
    const dashboard = createDashboard({
      sluice,
      authorize: () => ({ role: 'operator', name: 'ada' }),
      ...options,
    })
    const server = serve({ fetch: dashboard.fetch, hostname: '127.0.0.1', port })
    await new Promise((listens) => server.once('listening', listens))
    return {
      port: (server.address() as AddressInfo).port,
      stop: () =>
        new Promise((stopped) => {
          dashboard.close()
          server.close(() => stopped())
          if ('closeAllConnections' in server) server.closeAllConnections()
        }),
    }
  }
  let now: Awaited<ReturnType<typeof listening>> | null = await listening(0)
  const { port } = now
  const stop = async (): Promise<void> => {
    const stopping = now
    now = null
    await stopping?.stop()
  }
  onEnd(stop)
  return {
    url: `http://127.0.0.1:${port}${options.basePath ?? '/dashboard'}`,
    stop,
    async restart() {
      await stop()
      now = await listening(port)
    },
  }
}

/** A service at work on a store, and its dashboard. */
export interface Scene {
  readonly sluice: Sluice
  readonly url: string
}

/**
 * A service at work for all tests of a block: its members are there as soon as the first test begins. A failed test may
 * have left its changes half done, so its next try gets a service of its own.
 */
export function sceneOf(kind: StoreKind): Scene {
  const ends: (() => void | Promise<void>)[] = []
  const onEnd: OnEnd = (end) => void ends.unshift(end)
  const scene = {} as { sluice: Sluice; url: string }
  const begin = async (): Promise<void> => {
    scene.sluice = busyEngine(kind.create(onEnd))
    await scene.sluice.start()
    onEnd(() => scene.sluice.stop({ within: 0 }))
    await fill(scene.sluice)
    scene.url = (await serveDashboard(scene.sluice, {}, onEnd)).url
  }
  const end = async (): Promise<void> => {
    for (const each of ends.splice(0)) await each()
  }
  beforeAll(begin)
  beforeEach(async ({ task }) => {
    if (!task.result?.retryCount) return
    await end()
    await begin()
  })
  afterAll(end)
  return scene
}
