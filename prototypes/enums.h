// SPDX-License-Identifier: Apache-2.0
// Enumerations without a tag, so that they cannot be repeated behind the system's headers: no
// compiler reads this file. Their names are in constants-libraries.txt.

typedef int CURLMcode ENUM(CURLMcode);
typedef unsigned int CURLFORMcode ENUM(CURLFORMcode);
typedef unsigned int CURLHcode ENUM(CURLHcode);
typedef unsigned int CURLINFO ENUM(CURLINFO);
typedef unsigned int CURLMoption ENUM(CURLMoption);
typedef unsigned int CURLSHcode ENUM(CURLSHcode);
typedef unsigned int CURLSHoption ENUM(CURLSHoption);
typedef unsigned int CURLUPart ENUM(CURLUPart);
typedef unsigned int CURLUcode ENUM(CURLUcode);
typedef unsigned int CURLcode ENUM(CURLcode);
typedef unsigned int CURLoption ENUM(CURLoption);
typedef unsigned int CURLsslset ENUM(CURLsslset);
typedef unsigned int CURLversion ENUM(CURLversion);
typedef unsigned int ConnStatusType ENUM(ConnStatusType);
typedef unsigned int ExecStatusType ENUM(ExecStatusType);
typedef unsigned int OSSL_HANDSHAKE_STATE ENUM(OSSL_HANDSHAKE_STATE);
typedef unsigned int PGContextVisibility ENUM(PGContextVisibility);
typedef unsigned int PGPing ENUM(PGPing);
typedef unsigned int PGTransactionStatusType ENUM(PGTransactionStatusType);
typedef unsigned int PGVerbosity ENUM(PGVerbosity);
typedef unsigned int PGpipelineStatus ENUM(PGpipelineStatus);
typedef unsigned int PostgresPollingStatusType ENUM(PostgresPollingStatusType);
typedef unsigned int PyGILState_STATE ENUM(PyGILState_STATE);
typedef unsigned int X509_LOOKUP_TYPE ENUM(X509_LOOKUP_TYPE);
typedef unsigned int ZSTD_EndDirective ENUM(ZSTD_EndDirective);
typedef unsigned int ZSTD_ResetDirective ENUM(ZSTD_ResetDirective);
typedef unsigned int ZSTD_cParameter ENUM(ZSTD_cParameter);
typedef unsigned int ZSTD_dParameter ENUM(ZSTD_dParameter);
typedef unsigned int curl_sslbackend ENUM(curl_sslbackend);
typedef unsigned int lzma_action ENUM(lzma_action);
typedef unsigned int lzma_check ENUM(lzma_check);
typedef unsigned int lzma_index_iter_mode ENUM(lzma_index_iter_mode);
typedef unsigned int lzma_match_finder ENUM(lzma_match_finder);
typedef unsigned int lzma_mode ENUM(lzma_mode);
typedef unsigned int lzma_ret ENUM(lzma_ret);
