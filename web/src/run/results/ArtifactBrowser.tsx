import { useQuery } from '@tanstack/react-query'
import { useEffect, useMemo, useState } from 'react'

import { api } from '../../api/client'
import { Lines } from '../../components/Lines'
import { Failed, Loaded } from '../../components/Loaded'
import { VirtualRows } from '../../components/VirtualRows'
import { bytes } from '../../lib/bytes'
import { imageType, maxImage, maxText, previewOf, rowsIn, textOf, type Entry } from './entries'
import { artifactPath, readFile } from './files'

interface Props {
  run: string
  task: string
  name: string
  /** The directory or file that is shown. */
  path: string
  onPath: (path: string) => void
}

/** ArtifactBrowser shows the files of an artifact, one directory at a time, and previews of text and images. */
export function ArtifactBrowser({ run, task, name, path, onPath }: Props) {
  const query = useQuery({
    queryKey: ['artifact', run, task, name],
    queryFn: async ({ signal }) => (await api.GET('/api/v1/runs/{id}/artifacts/{task}/{name}/entries', { signal, params: { path: { id: run, task, name } } })).data!,
  })
  const entries = query.data?.entries
  const file = useMemo(() => entries?.find((e) => e.type !== 'directory' && e.path.replace(/^\.\//, '') === path), [entries, path])
  const rows = useMemo(() => (entries && !file ? rowsIn(entries, path) : []), [entries, path, file])
  if (!entries) return <Loaded query={query} loading="Reading the artifact …">{() => null}</Loaded>
  const parts = path === '' ? [] : path.split('/')
  return (
    <div className="browser">
      <nav aria-label="Directory" className="crumbs">
        <button onClick={() => onPath('')}>{name}</button>
        {parts.map((p, i) => <span key={i}>/<button aria-current={i === parts.length - 1 ? 'page' : undefined} onClick={() => onPath(parts.slice(0, i + 1).join('/'))}>{p}</button></span>)}
      </nav>
      {query.data?.more && <p className="notice">The artifact has more entries than can be listed here. Download it to see all.</p>}
      {file
        ? <FilePreview key={path} url={artifactPath(run, task, name, file.path)} entry={file} />
        : rows.length === 0
          ? <div className="empty">{path === '' ? 'The artifact is empty.' : 'There is no such file in the artifact.'}</div>
          : (
            <VirtualRows
              label={`Files of ${name}`} rows={rows} keyOf={(r) => r.path} rowHeight={32}
              columns={[
                { title: 'Name', width: 'minmax(0, 1fr)', cell: (r) => <button className="link" onClick={() => onPath(r.path)}>{r.directory ? `${r.name}/` : r.name}{r.entry?.target !== undefined && <span className="muted"> → {r.entry.target}</span>}</button> },
                { title: 'Size', width: '90px', cell: (r) => bytes(r.size) },
                { title: 'Files', width: '70px', wide: true, cell: (r) => (r.directory ? r.files : '') },
                { title: 'Mode', width: '60px', wide: true, cell: (r) => <span className="mono muted">{r.entry?.mode}</span> },
              ]}
            />
          )}
    </div>
  )
}

function FilePreview({ url, entry }: { url: string; entry: Entry }) {
  const kind = entry.type === 'file' ? previewOf(entry.path, entry.size) : 'none'
  const [wrap, setWrap] = useState(false)
  const query = useQuery({
    queryKey: ['artifact-file', url],
    enabled: kind !== 'none',
    gcTime: 0,
    queryFn: async ({ signal }) => readFile(url, kind === 'image' ? maxImage : maxText, signal),
  })
  const text = useMemo(() => (kind === 'text' && query.data ? textOf(query.data.content) : undefined), [kind, query.data])
  return (
    <section aria-label={`Preview of ${entry.path}`}>
      <div className="filters">
        <span className="muted">{bytes(entry.size)}</span>
        {entry.target !== undefined && <span className="muted">link to {entry.target}</span>}
        <a className="button" href={url} download>Download</a>
        {text !== undefined && <label><input type="checkbox" checked={wrap} onChange={(e) => setWrap(e.target.checked)} /> wrap lines</label>}
      </div>
      <Failed query={query} />
      {kind === 'none' && <div className="empty">There is no preview of this file. Download it.</div>}
      {kind !== 'none' && query.isPending && !query.failureReason && <p className="muted">Reading the file …</p>}
      {kind === 'image' && query.data && <Image content={query.data.content} path={entry.path} />}
      {kind === 'text' && query.data && (text === undefined ? <div className="empty">The file is not text. Download it.</div> : <Lines label={entry.path} text={text} wrap={wrap} />)}
      {query.data?.more && <p className="notice">These are the first {bytes(maxText)}. Download the file to see all.</p>}
    </section>
  )
}

/** Image shows pixels: the type is that of an image format without scripts, and not what the file says of itself. */
function Image({ content, path }: { content: Uint8Array<ArrayBuffer>; path: string }) {
  const [url, setUrl] = useState<string>()
  const [broken, setBroken] = useState(false)
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([content], { type: imageType(path) }))
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [content, path])
  if (broken) return <div className="empty">The file is not an image that the browser can show. Download it.</div>
  return url ? <img className="preview" src={url} alt={path} onError={() => setBroken(true)} /> : null
}
