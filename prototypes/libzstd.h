// SPDX-License-Identifier: Apache-2.0
// Zstandard.
// Types are those of the headers (scripts/declare.py writes them); the words behind them are ours.

size_t ZDICT_getDictHeaderSize(const void *dictBuffer, size_t dictSize);
unsigned ZDICT_getDictID(const void *dictBuffer, size_t dictSize);
const char *ZDICT_getErrorName(size_t errorCode);
unsigned ZDICT_isError(size_t errorCode);
size_t ZDICT_trainFromBuffer(void *dictBuffer, size_t dictBufferCapacity, const void
	*samplesBuffer, const size_t *samplesSizes, unsigned nbSamples);
size_t ZSTD_CCtx_loadDictionary(ZSTD_CCtx *cctx, const void *dict, size_t dictSize);
size_t ZSTD_CCtx_refCDict(ZSTD_CCtx *cctx, const ZSTD_CDict *cdict);
size_t ZSTD_CCtx_refPrefix(ZSTD_CCtx *cctx, const void *prefix, size_t prefixSize);
size_t ZSTD_CCtx_reset(ZSTD_CCtx *cctx, ZSTD_ResetDirective reset);
size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *cctx, ZSTD_cParameter param, int value);
size_t ZSTD_CCtx_setPledgedSrcSize(ZSTD_CCtx *cctx, unsigned long long pledgedSrcSize);
size_t ZSTD_CStreamInSize(void);
size_t ZSTD_CStreamOutSize(void);
size_t ZSTD_DCtx_loadDictionary(ZSTD_DCtx *dctx, const void *dict, size_t dictSize);
size_t ZSTD_DCtx_refDDict(ZSTD_DCtx *dctx, const ZSTD_DDict *ddict);
size_t ZSTD_DCtx_refPrefix(ZSTD_DCtx *dctx, const void *prefix, size_t prefixSize);
size_t ZSTD_DCtx_reset(ZSTD_DCtx *dctx, ZSTD_ResetDirective reset);
size_t ZSTD_DCtx_setParameter(ZSTD_DCtx *dctx, ZSTD_dParameter param, int value);
size_t ZSTD_DStreamInSize(void);
size_t ZSTD_DStreamOutSize(void);
size_t ZSTD_compress(void *dst OUT(always) BYTES(min(result, dstCapacity)), size_t
	dstCapacity, const void *src BYTES(srcSize), size_t srcSize, int compressionLevel);
size_t ZSTD_compress2(ZSTD_CCtx *cctx, void *dst, size_t dstCapacity, const void *src,
	size_t srcSize);
size_t ZSTD_compressBound(size_t srcSize);
size_t ZSTD_compressCCtx(ZSTD_CCtx *cctx, void *dst OUT(always) BYTES(min(result,
	dstCapacity)), size_t dstCapacity, const void *src BYTES(srcSize), size_t srcSize, int
	compressionLevel);
size_t ZSTD_compressStream(ZSTD_CStream *zcs, ZSTD_outBuffer *output, ZSTD_inBuffer *input);
size_t ZSTD_compressStream2(ZSTD_CCtx *cctx, ZSTD_outBuffer *output, ZSTD_inBuffer *input,
	ZSTD_EndDirective endOp);
size_t ZSTD_compress_usingCDict(ZSTD_CCtx *cctx, void *dst, size_t dstCapacity, const void
	*src, size_t srcSize, const ZSTD_CDict *cdict);
size_t ZSTD_compress_usingDict(ZSTD_CCtx *ctx, void *dst, size_t dstCapacity, const void
	*src, size_t srcSize, const void *dict, size_t dictSize, int compressionLevel);
ZSTD_CCtx *ZSTD_createCCtx(void);
ZSTD_CDict *ZSTD_createCDict(const void *dictBuffer, size_t dictSize, int compressionLevel);
ZSTD_CStream *ZSTD_createCStream(void);
ZSTD_DCtx *ZSTD_createDCtx(void);
ZSTD_DDict *ZSTD_createDDict(const void *dictBuffer, size_t dictSize);
ZSTD_DStream *ZSTD_createDStream(void);
size_t ZSTD_decompress(void *dst OUT(always) BYTES(min(result, dstCapacity)), size_t
	dstCapacity, const void *src BYTES(compressedSize), size_t compressedSize);
size_t ZSTD_decompressDCtx(ZSTD_DCtx *dctx, void *dst OUT(always) BYTES(min(result,
	dstCapacity)), size_t dstCapacity, const void *src BYTES(srcSize), size_t srcSize);
size_t ZSTD_decompressStream(ZSTD_DStream *zds, ZSTD_outBuffer *output, ZSTD_inBuffer *input);
size_t ZSTD_decompress_usingDDict(ZSTD_DCtx *dctx, void *dst, size_t dstCapacity, const void
	*src, size_t srcSize, const ZSTD_DDict *ddict);
size_t ZSTD_decompress_usingDict(ZSTD_DCtx *dctx, void *dst, size_t dstCapacity, const void
	*src, size_t srcSize, const void *dict, size_t dictSize);
int ZSTD_defaultCLevel(void);
size_t ZSTD_endStream(ZSTD_CStream *zcs, ZSTD_outBuffer *output);
size_t ZSTD_findFrameCompressedSize(const void *src, size_t srcSize);
size_t ZSTD_flushStream(ZSTD_CStream *zcs, ZSTD_outBuffer *output);
size_t ZSTD_freeCCtx(ZSTD_CCtx *cctx);
size_t ZSTD_freeCDict(ZSTD_CDict *CDict);
size_t ZSTD_freeCStream(ZSTD_CStream *zcs);
size_t ZSTD_freeDCtx(ZSTD_DCtx *dctx);
size_t ZSTD_freeDDict(ZSTD_DDict *ddict);
size_t ZSTD_freeDStream(ZSTD_DStream *zds);
unsigned long long ZSTD_getDecompressedSize(const void *src, size_t srcSize);
unsigned ZSTD_getDictID_fromCDict(const ZSTD_CDict *cdict);
unsigned ZSTD_getDictID_fromDDict(const ZSTD_DDict *ddict);
unsigned ZSTD_getDictID_fromDict(const void *dict, size_t dictSize);
unsigned ZSTD_getDictID_fromFrame(const void *src, size_t srcSize);
const char *ZSTD_getErrorName(size_t code);
unsigned long long ZSTD_getFrameContentSize(const void *src, size_t srcSize);
size_t ZSTD_initCStream(ZSTD_CStream *zcs, int compressionLevel);
size_t ZSTD_initDStream(ZSTD_DStream *zds);
unsigned ZSTD_isError(size_t code);
int ZSTD_maxCLevel(void);
int ZSTD_minCLevel(void);
size_t ZSTD_sizeof_CCtx(const ZSTD_CCtx *cctx);
size_t ZSTD_sizeof_CDict(const ZSTD_CDict *cdict);
size_t ZSTD_sizeof_CStream(const ZSTD_CStream *zcs);
size_t ZSTD_sizeof_DCtx(const ZSTD_DCtx *dctx);
size_t ZSTD_sizeof_DDict(const ZSTD_DDict *ddict);
size_t ZSTD_sizeof_DStream(const ZSTD_DStream *zds);
unsigned ZSTD_versionNumber(void);
const char *ZSTD_versionString(void);
